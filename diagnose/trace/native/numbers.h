/* Numbers as `diagnose.trace.numbers` reads them: ids and sizes to 63-bit integers, microseconds to nanoseconds. */

#ifndef DIAGNOSE_NUMBERS_H
#define DIAGNOSE_NUMBERS_H

#include <float.h>
#include <math.h>

#include "text.h"

#define ABSENT (-1)
#define NO_TIME INT64_MIN
#define LIMIT (UINT64_C(1) << 62)
#define DOUBLE_IS_EXACT_BELOW_US (UINT64_C(1) << 43)
#define MOST_EXACT_DECIMALS 22 /* 10**22 is a double, and so is no larger power of ten */
#define LONGEST_NUMBER 63

/* Who says what a text in a number's place means. */
typedef struct {
    int (*integer)(void *owner, const Span *text, int64_t *result);
    void *owner;
} Asked;

static int nearest_double(const char *text, double *result);

static const uint64_t POWERS[] = {1, 10, 100, 1000};

/* The double that is nearest, as every correct reader has it: one division of two doubles rounds once. */
static int as_double(const Number *number, double *result)
{
    char text[LONGEST_NUMBER + 1];
    double divisor = 1;
    if (FLT_EVAL_METHOD == 0 && !number->scaled && number->count <= MOST_DIGITS &&
        number->digits < UINT64_C(1) << 53 && number->decimals <= MOST_EXACT_DECIMALS) {
        for (int decimal = 0; decimal < number->decimals; decimal++)
            divisor *= 10;
        *result = (double)number->digits / divisor;
        if (number->negative)
            *result = -*result;
        return 1;
    }
    if (number->size > LONGEST_NUMBER)
        return 0;
    memcpy(text, number->begin, number->size);
    text[number->size] = 0;
    return nearest_double(text, result) && isfinite(*result);
}

enum { NOT_UNDERSTOOD, AS_ABSENT, TOLD };

/* A whole number; of another the whole part; of a text what the reference reader says. */
static int read_integer(Text *text, int64_t *result, const Asked *asked)
{
    Number number;
    Span span;
    double rounded;
    int first = next_byte(text);
    if (first == 'n')
        return read_literal(text, "null") ? TOLD : NOT_UNDERSTOOD;
    if (first == '"') {
        if (!read_string(text, &span) || !span.plain)
            return NOT_UNDERSTOOD;
        return asked->integer(asked->owner, &span, result) ? TOLD : NOT_UNDERSTOOD;
    }
    if (!read_number(text, &number))
        return NOT_UNDERSTOOD;
    if (number.whole && number.count <= MOST_DIGITS) {
        *result = number.negative ? -(int64_t)number.digits : (int64_t)number.digits;
        return number.negative && number.digits == 1 ? AS_ABSENT : TOLD;
    }
    if (number.whole || !as_double(&number, &rounded) || fabs(rounded) >= (double)LIMIT)
        return NOT_UNDERSTOOD;
    *result = (int64_t)rounded;
    return TOLD;
}

/* Microseconds that a double holds to the nanosecond, rounded as `diagnose.formulas.kineto.nanoseconds` does. */
static int64_t rounded_ns(double us)
{
    double whole, fraction = modf(us, &whole);
    return (int64_t)whole * 1000 + (int64_t)rint(fraction * 1000);
}

/* Microseconds to nanoseconds. `large`: a double cannot hold them to the nanosecond; then they need up to 3 decimals. */
static int as_ns(const Number *number, int64_t *ns, int *large)
{
    double us;
    uint64_t scale;
    if (number->scaled || number->decimals > 3 || number->count > MOST_HELD_DIGITS) {
        if (!as_double(number, &us))
            return 0;
        *large = fabs(us) >= (double)DOUBLE_IS_EXACT_BELOW_US;
        if (!*large)
            *ns = rounded_ns(us);
        return 1;
    }
    *large = number->digits >= DOUBLE_IS_EXACT_BELOW_US * POWERS[number->decimals];
    scale = POWERS[3 - number->decimals];
    if (number->digits < LIMIT / scale)
        *ns = number->negative ? -(int64_t)(number->digits * scale) : (int64_t)(number->digits * scale);
    return 1;
}

static int read_ts(Text *text, int64_t *ns, int *needs_digits)
{
    Number number;
    next_byte(text);
    return read_number(text, &number) && as_ns(&number, ns, needs_digits) && *ns != NO_TIME;
}

/* NO_TIME for none, and for one that no event can last. */
static int read_dur(Text *text, int64_t *ns)
{
    Number number;
    int large;
    if (next_byte(text) == 'n')
        return read_literal(text, "null");
    if (!read_number(text, &number) || !as_ns(&number, ns, &large))
        return 0;
    if (large)
        *ns = NO_TIME;
    return 1;
}

#endif
