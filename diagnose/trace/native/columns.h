/* What is told of events, in arrays of numbers. */

#ifndef DIAGNOSE_COLUMNS_H
#define DIAGNOSE_COLUMNS_H

#include "event.h"

/* The arguments that become columns are the first of the whole numbers. */
enum { ROW_TS, ROW_DUR, ROW_PID, ROW_TID, ROW_ARGUMENTS, ROW_INTEGERS = ROW_ARGUMENTS + EXTERNAL_ID_BEFORE_2021 };
enum { ROW_NAME, ROW_CAT, ROW_SHAPE, ROW_IDS };
enum { CALL_ROW, CALL_BEGIN, CALL_END, CALL_INTEGERS };
enum { MEMORY_RESERVED, MEMORY_DEVICE, MEMORY_DEVICE_TYPE, MEMORY_INTEGERS };

/* Arrays with a row for each of the enumerators, of `room` numbers each, and how many of these are filled;
 * `left_out` counts events by the kinds of which none is kept. */
typedef struct {
    int64_t *integers, *calls, *memory, *left_out;
    int32_t *ids;
    double *rates;
    size_t room, kinds_left_out;
    size_t rows, call_rows, memory_rows, others, not_finite;
    int needs_digits;
} Columns;

static void put_call(Columns *to, const Args *args, const unsigned char *begin)
{
    size_t at = to->call_rows++;
    to->calls[CALL_ROW * to->room + at] = (int64_t)to->rows;
    to->calls[CALL_BEGIN * to->room + at] = args->text.begin - begin;
    to->calls[CALL_END * to->room + at] = args->text.begin - begin + (ptrdiff_t)args->text.size;
}

static void put_numbers(Columns *to, const Event *event)
{
    const Args *args = &event->args;
    int64_t *row = to->integers + to->rows;
    size_t room = to->room;
    row[ROW_TS * room] = event->ts_ns;
    row[ROW_DUR * room] = event->dur_ns;
    row[ROW_PID * room] = event->pid;
    row[ROW_TID * room] = event->tid;
    for (int place = 0; place < EXTERNAL_ID_BEFORE_2021; place++)
        row[(ROW_ARGUMENTS + place) * room] = args->integers[place];
    if (args->integers[EXTERNAL_ID] == ABSENT)
        row[(ROW_ARGUMENTS + EXTERNAL_ID) * room] = args->integers[EXTERNAL_ID_BEFORE_2021];
    if (!args->of_device)
        row[(ROW_ARGUMENTS + OCCUPANCY) * room] = ABSENT;
    to->rates[BLOCKS_PER_SM * room + to->rows] = args->rates[BLOCKS_PER_SM];
    to->rates[WARPS_PER_SM * room + to->rows] = args->of_device ? args->rates[WARPS_PER_SM] : NAN;
}

/* Whether the reference reader, too, reads what of the event nobody asks for: it decodes each text. */
static int is_sound(const Event *event)
{
    return (!event->name.begin || event->name.ascii) && (!event->cat.begin || event->cat.ascii) &&
           !event->args.seen[AS_ANYTHING];
}

/* An event without a place in the columns. */
static int put_other(Columns *to, const Event *event)
{
    const Span *name = &event->name;
    if (!is_sound(event))
        return 0;
    if (event->phase == 'X') {
        to->not_finite++;
        return !to->kinds_left_out; /* one of a kind that is left out does not count as such */
    }
    to->others++;
    if (event->phase == 'i' && event->has_args && name->plain && name->size == 8 && !memcmp(name->begin, "[memory]", 8)) {
        int64_t *row = to->memory + to->memory_rows++;
        row[MEMORY_RESERVED * to->room] = event->args.integers[RESERVED];
        row[MEMORY_DEVICE * to->room] = event->args.integers[DEVICE_ID];
        row[MEMORY_DEVICE_TYPE * to->room] = event->args.integers[DEVICE_TYPE];
    }
    return 1;
}

#endif
