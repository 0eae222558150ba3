/* What is told of events, in arrays of numbers. */

#ifndef DIAGNOSE_COLUMNS_H
#define DIAGNOSE_COLUMNS_H

#include "event.h"

/* The columns: 64-bit integers, rates, and 32-bit integers, of which the first are numbers of texts. */
enum { ROW_TS, ROW_DUR, ROW_PID, ROW_TID, ROW_EXTERNAL_ID, ROW_CORRELATION, ROW_BYTES, ROW_INTEGERS };
enum { ROW_BLOCKS_PER_SM, ROW_RATES };
enum { ROW_NAME, ROW_CAT, ROW_SHAPE, TEXTS, ROW_STREAM = TEXTS, ROW_DEVICE, ROW_OCCUPANCY, ROW_BLOCK_THREADS, ROW_IDS };
enum { CALL_ROW, CALL_BEGIN, CALL_END, CALL_INTEGERS };
enum { MEMORY_TS, MEMORY_ALLOCATED, MEMORY_RESERVED, MEMORY_DEVICE, MEMORY_DEVICE_TYPE, MEMORY_INTEGERS };

/* The largest that can be meant, as the reference reader has them. */
#define MOST_BYTES (INT64_C(1) << 50)
#define MOST_PERCENT 100
#define MOST_BLOCK_THREADS 1024

/* Arrays with a row for each of the enumerators, of `room` numbers each, and how many of these are filled;
 * `left_out` counts events by the kinds of which none is kept. `passed` bytes were read before the text at hand. */
typedef struct {
    int64_t *integers, *calls, *memory, *left_out;
    int32_t *ids;
    double *rates;
    size_t room, kinds_left_out, passed;
    size_t rows, call_rows, memory_rows, others, not_finite;
    int needs_digits;
} Columns;

static void put_call(Columns *to, const Args *args, const unsigned char *begin)
{
    size_t at = to->call_rows++;
    to->calls[CALL_ROW * to->room + at] = (int64_t)to->rows;
    to->calls[CALL_BEGIN * to->room + at] = (int64_t)(to->passed + (size_t)(args->text.begin - begin));
    to->calls[CALL_END * to->room + at] = to->calls[CALL_BEGIN * to->room + at] + (int64_t)args->text.size;
}

static inline int64_t within(int64_t value, int64_t most)
{
    return value >= 0 && value <= most ? value : ABSENT;
}

static inline int32_t as_int32(int64_t value)
{
    return value > INT32_MIN && value <= INT32_MAX ? (int32_t)value : ABSENT;
}

/* Kineto spreads warps of 32, and blocks, over one device. */
static inline int32_t block_threads(double warps_per_sm, double blocks_per_sm)
{
    double threads = rint(32 * warps_per_sm / blocks_per_sm);
    return threads >= 1 && threads <= MOST_BLOCK_THREADS ? (int32_t)threads : ABSENT;
}

static void put_numbers(Columns *to, const Event *event)
{
    const Args *args = &event->args;
    const int64_t *told = args->integers;
    const double *rates = args->rates;
    size_t room = to->room;
    int64_t *row = to->integers + to->rows;
    int32_t *small = to->ids + to->rows;
    row[ROW_TS * room] = event->ts_ns;
    row[ROW_DUR * room] = event->dur_ns;
    row[ROW_PID * room] = event->pid;
    row[ROW_TID * room] = event->tid;
    row[ROW_EXTERNAL_ID * room] = told[EXTERNAL_ID] == ABSENT ? told[EXTERNAL_ID_BEFORE_2021] : told[EXTERNAL_ID];
    row[ROW_CORRELATION * room] = told[CORRELATION];
    row[ROW_BYTES * room] = within(told[BYTES], MOST_BYTES);
    small[ROW_STREAM * room] = as_int32(told[STREAM]);
    small[ROW_DEVICE * room] = as_int32(told[DEVICE]);
    small[ROW_OCCUPANCY * room] = args->of_device ? (int32_t)within(told[OCCUPANCY], MOST_PERCENT) : ABSENT;
    small[ROW_BLOCK_THREADS * room] =
        args->of_device ? block_threads(rates[WARPS_PER_SM], rates[BLOCKS_PER_SM]) : ABSENT;
    to->rates[ROW_BLOCKS_PER_SM * room + to->rows] = rates[BLOCKS_PER_SM];
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
    if (event->phase == 'i' && name->plain && name->size == 8 && !memcmp(name->begin, "[memory]", 8)) {
        int64_t *row = to->memory + to->memory_rows++;
        to->needs_digits |= event->needs_digits;
        row[MEMORY_TS * to->room] = event->ts_ns;
        row[MEMORY_ALLOCATED * to->room] = event->args.integers[ALLOCATED];
        row[MEMORY_RESERVED * to->room] = event->args.integers[RESERVED];
        row[MEMORY_DEVICE * to->room] = event->args.integers[DEVICE_ID];
        row[MEMORY_DEVICE_TYPE * to->room] = event->args.integers[DEVICE_TYPE];
    }
    return 1;
}

#endif
