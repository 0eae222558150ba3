/* One event of a trace, its fields as `diagnose.trace.events` names them, in fixed places. */

#ifndef DIAGNOSE_EVENT_H
#define DIAGNOSE_EVENT_H

#include "numbers.h"

enum { /* whole numbers among the arguments; those behind DEVICE_TYPE are only looked at */
    EXTERNAL_ID, CORRELATION, STREAM, DEVICE, BYTES, OCCUPANCY, EXTERNAL_ID_BEFORE_2021, ALLOCATED, RESERVED, DEVICE_ID,
    DEVICE_TYPE,
    ELEMENTS_IN, ELEMENTS_OUT, GROUP_SIZE, SEQ, RECEIVER, SENDER, INTEGERS
};
enum { BLOCKS_PER_SM, WARPS_PER_SM, RATES };
enum { DIMS, TYPES, CONCRETE, DIMS_BEFORE_2021, LISTS };
enum { COLLECTIVE, GROUP, DTYPE, GROUP_RANKS }; /* of whatever type: who has one is decoded by the reference reader */
enum { AS_INTEGER, AS_RATE, AS_LIST, AS_ANYTHING, KINDS };

typedef struct {
    int64_t integers[INTEGERS];
    double rates[RATES];
    Span lists[LISTS], text;
    uint32_t seen[KINDS]; /* by kind, a bit for each field */
    int of_device;    /* has what activities of the device have, and few other events */
} Args;

enum { HAS_PH = 1, HAS_CAT = 2, HAS_NAME = 4, HAS_PID = 8, HAS_TID = 16, HAS_TS = 32, HAS_DUR = 64, HAS_ARGS = 128 };

typedef struct {
    uint32_t seen;
    int phase, has_args;
    Span cat, name;
    int64_t pid, tid, ts_ns, dur_ns;
    int needs_digits; /* a time that a double cannot hold to the nanosecond */
    Args args;
} Event;

typedef struct {
    const char *name;
    unsigned char size, kind, place;
} Field;

#define FIELD(name, kind, place) {name, sizeof(name) - 1, kind, place}

static const Field ARGUMENTS[] = {/* by length */
    FIELD("Seq", AS_INTEGER, SEQ),
    FIELD("bytes", AS_INTEGER, BYTES),
    FIELD("dtype", AS_ANYTHING, DTYPE),
    FIELD("stream", AS_INTEGER, STREAM),
    FIELD("device", AS_INTEGER, DEVICE),
    FIELD("Dst Rank", AS_INTEGER, RECEIVER),
    FIELD("Src Rank", AS_INTEGER, SENDER),
    FIELD("Device Id", AS_INTEGER, DEVICE_ID),
    FIELD("Input Dims", AS_LIST, DIMS),
    FIELD("Input type", AS_LIST, TYPES),
    FIELD("Input dims", AS_LIST, DIMS_BEFORE_2021),
    FIELD("Group size", AS_INTEGER, GROUP_SIZE),
    FIELD("External id", AS_INTEGER, EXTERNAL_ID),
    FIELD("correlation", AS_INTEGER, CORRELATION),
    FIELD("external id", AS_INTEGER, EXTERNAL_ID_BEFORE_2021),
    FIELD("Device Type", AS_INTEGER, DEVICE_TYPE),
    FIELD("warps per SM", AS_RATE, WARPS_PER_SM),
    FIELD("blocks per SM", AS_RATE, BLOCKS_PER_SM),
    FIELD("In msg nelems", AS_INTEGER, ELEMENTS_IN),
    FIELD("Out msg nelems", AS_INTEGER, ELEMENTS_OUT),
    FIELD("Total Reserved", AS_INTEGER, RESERVED),
    FIELD("Total Allocated", AS_INTEGER, ALLOCATED),
    FIELD("Concrete Inputs", AS_LIST, CONCRETE),
    FIELD("Collective name", AS_ANYTHING, COLLECTIVE),
    FIELD("Process Group Name", AS_ANYTHING, GROUP),
    FIELD("Process Group Ranks", AS_ANYTHING, GROUP_RANKS),
    FIELD("est. achieved occupancy %", AS_INTEGER, OCCUPANCY),
};
#define ARGUMENTS_KNOWN (sizeof(ARGUMENTS) / sizeof(*ARGUMENTS))
#define LONGEST_KEY 25

typedef struct {
    char written[8]; /* the key with its quotes and the colon */
    unsigned char size, bit;
} Member;

#define MEMBER(name, bit) {"\"" name "\":", sizeof(name) + 2, bit}

static const Member MEMBERS[] = {/* as PyTorch writes them one after the other */
    MEMBER("ph", HAS_PH),   MEMBER("cat", HAS_CAT), MEMBER("name", HAS_NAME), MEMBER("pid", HAS_PID),
    MEMBER("tid", HAS_TID), MEMBER("ts", HAS_TS),   MEMBER("dur", HAS_DUR),   MEMBER("args", HAS_ARGS),
};
#define MEMBERS_KNOWN (sizeof(MEMBERS) / sizeof(*MEMBERS))

static const char COMPLETE[8] = "\"X\"";

static inline int is_field(const Field *field, const Span *key)
{
    return field->size == key->size && *field->name == *key->begin && !memcmp(field->name, key->begin, key->size);
}

static const Member *member_of(const Span *key)
{
    for (const Member *each = MEMBERS; each < MEMBERS + MEMBERS_KNOWN; each++)
        if (each->size == key->size + 3 && !memcmp(each->written + 1, key->begin, key->size))
            return each;
    return NULL;
}

/* The key of a member and the colon; `member` comes as the one that is expected and goes as what it is, NULL of none known. */
static inline int read_member(Text *text, const Member **member)
{
    Span key;
    next_byte(text);
    if (*member < MEMBERS + MEMBERS_KNOWN && take_written(text, (*member)->written, (*member)->size))
        return 1;
    if (!read_string(text, &key) || !key.plain || !take(text, ':'))
        return 0;
    *member = member_of(&key);
    return 1;
}

/* By the first of its length, so that a key is compared with few. */
static const Field *argument_of(const Span *key)
{
    static const unsigned char FIRST[LONGEST_KEY + 2] = {
        0, 0, 0, 0, 1, 1, 3, 5, 5, 7, 8, 12, 16, 17, 19, 21, 24, 24, 24, 25, 26, 26, 26, 26, 26, 26, 27,
    };
    if (key->size > LONGEST_KEY)
        return NULL;
    for (size_t each = FIRST[key->size]; each < FIRST[key->size + 1]; each++)
        if (is_field(&ARGUMENTS[each], key))
            return &ARGUMENTS[each];
    return NULL;
}

/* Each known field may come once. */
static int is_first(uint32_t *seen, uint32_t bit)
{
    int first = !(*seen & bit);
    *seen |= bit;
    return first;
}

static int read_argument(Text *text, const Field *field, Args *args, const Asked *asked)
{
    Number number;
    Span *list;
    int told;
    if (!is_first(&args->seen[field->kind], UINT32_C(1) << field->place))
        return 0;
    switch (field->kind) {
    case AS_INTEGER:
        told = read_integer(text, &args->integers[field->place], asked);
        if (field->place == STREAM || field->place == DEVICE || field->place == BYTES)
            args->of_device |= told == TOLD;
        return told;
    case AS_RATE:
        args->of_device |= field->place == BLOCKS_PER_SM;
        return next_byte(text) != 'n' ? read_number(text, &number) && as_double(&number, &args->rates[field->place])
                                      : read_literal(text, "null");
    case AS_LIST:
        next_byte(text);
        list = &args->lists[field->place];
        list->begin = text->at;
        if (!skip_value(text, DEEPEST))
            return 0;
        list->size = (size_t)(text->at - list->begin);
        return 1;
    default:
        return skip_value(text, DEEPEST);
    }
}

static int read_args(Text *text, Args *args, const Asked *asked)
{
    Span key;
    args->text.begin = text->at;
    if (!take(text, '{'))
        return 0;
    if (!take(text, '}')) {
        do {
            const Field *field;
            if (!read_string(text, &key) || !key.plain || !take(text, ':'))
                return 0;
            field = argument_of(&key);
            if (!(field ? read_argument(text, field, args, asked) : skip_value(text, DEEPEST)))
                return 0;
        } while (take(text, ','));
        if (!take(text, '}'))
            return 0;
    }
    args->text.size = (size_t)(text->at - args->text.begin);
    return 1;
}

static int read_field(Text *text, int field, Event *event, const Asked *asked)
{
    Span phase;
    switch (field) {
    case HAS_PH:
        next_byte(text);
        if (take_written(text, COMPLETE, 3)) {
            event->phase = 'X';
            return 1;
        }
        if (!read_string(text, &phase) || phase.size != 1)
            return 0;
        event->phase = *phase.begin;
        return strchr("XiBECbneOANDMPSTFpstfRcVv()", event->phase) != NULL;
    case HAS_CAT:
        return read_string(text, &event->cat);
    case HAS_NAME:
        return read_string(text, &event->name);
    case HAS_PID:
        return read_integer(text, &event->pid, asked);
    case HAS_TID:
        return read_integer(text, &event->tid, asked);
    case HAS_TS:
        return read_ts(text, &event->ts_ns, &event->needs_digits);
    case HAS_DUR:
        return read_dur(text, &event->dur_ns);
    default:
        event->has_args = next_byte(text) != 'n';
        return event->has_args ? read_args(text, &event->args, asked) : read_literal(text, "null");
    }
}

/* What an event is before anything is told of it, but for `args.text`. In parts: a copy of the whole takes longer. */
static inline void clear(Event *event)
{
    Args *args = &event->args;
    event->seen = 0;
    event->phase = event->has_args = event->needs_digits = args->of_device = 0;
    event->cat = event->name = (Span){0};
    event->pid = event->tid = ABSENT;
    event->ts_ns = event->dur_ns = NO_TIME;
    for (int place = 0; place < INTEGERS; place++)
        args->integers[place] = ABSENT;
    for (int place = 0; place < RATES; place++)
        args->rates[place] = NAN;
    for (int place = 0; place < LISTS; place++)
        args->lists[place] = (Span){0};
    for (int kind = 0; kind < KINDS; kind++)
        args->seen[kind] = 0;
}

static int read_event(Text *text, Event *event, const Asked *asked)
{
    const Member *expected = MEMBERS;
    clear(event);
    if (!take(text, '{'))
        return 0;
    do {
        const Member *member = expected;
        if (!read_member(text, &member))
            return 0;
        if (member && !is_first(&event->seen, member->bit))
            return 0;
        if (!(member ? read_field(text, member->bit, event, asked) : skip_value(text, DEEPEST)))
            return 0;
        if (member)
            expected = member + 1;
    } while (take(text, ','));
    return take(text, '}') && event->phase;
}

#endif
