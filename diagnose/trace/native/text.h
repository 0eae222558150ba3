/* JSON read strictly, in one pass and never beyond its end.
 *
 * What is not understood is no error: a function then returns 0, and the reference reader decides what the text means. So
 * all that is understood here has to mean the same there; to understand less costs time alone.
 */

#ifndef DIAGNOSE_TEXT_H
#define DIAGNOSE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define DEEPEST 64 /* nested values that are gone into */
#define MOST_DIGITS 18 /* whole numbers of so many fit 63 bits */
#define MOST_HELD_DIGITS 19 /* and of so many 64 */
#define ONES UINT64_C(0x0101010101010101)

typedef struct {
    const unsigned char *at, *end;
} Text;

typedef struct {
    const unsigned char *begin;
    size_t size;
    int ascii, plain; /* of a string: ASCII alone, and nothing escaped either */
} Span;

typedef struct {
    const unsigned char *begin;
    size_t size;
    uint64_t digits; /* without sign, point and exponent; sound where there are at most MOST_HELD_DIGITS */
    int count, decimals, negative, whole, scaled; /* scaled: by an exponent */
} Number;

/* The next byte that is no space, 0 where there is none. */
static inline int next_byte(Text *text)
{
    for (; text->at < text->end; text->at++) {
        unsigned char byte = *text->at;
        if (byte > ' ')
            return byte;
        if (byte != ' ' && byte != '\n' && byte != '\t' && byte != '\r')
            return 0;
    }
    return 0;
}

static inline int take(Text *text, int wanted)
{
    if (next_byte(text) != wanted)
        return 0;
    text->at++;
    return 1;
}

/* Whether the text goes on with the first `size` bytes of `wanted`, and past them; near its end it says no.
 *
 * To ask for what is mostly there is quicker than to look where it ends, since what follows need not wait for that. */
static inline int take_written(Text *text, const char wanted[8], size_t size)
{
    uint64_t here, there;
    if (text->end - text->at < 8)
        return 0;
    memcpy(&here, text->at, 8);
    memcpy(&there, wanted, 8);
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if ((here ^ there) << (64 - 8 * size))
        return 0;
#else
    if (memcmp(text->at, wanted, size))
        return 0;
#endif
    text->at += size;
    return 1;
}

/* A high bit in the first of eight bytes that is a quote, a backslash, a control character, or beyond ASCII. */
static inline uint64_t special(uint64_t eight)
{
    uint64_t quote = eight ^ (ONES * '"'), slash = eight ^ (ONES * '\\');
    uint64_t found = ((eight - ONES * ' ') & ~eight) | ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | eight;
    return found & (ONES << 7);
}

#ifdef __SSE2__
/* A bit for each of sixteen bytes that is such. */
static inline int special_of_sixteen(const unsigned char *at)
{
    const __m128i sixteen = _mm_loadu_si128((const __m128i *)at);
    const __m128i quote = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('"'));
    const __m128i slash = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('\\'));
    const __m128i control = _mm_cmplt_epi8(sixteen, _mm_set1_epi8(' ')); /* or beyond ASCII, below 0 there */
    return _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control));
}
#endif

static inline const unsigned char *past_plain(const unsigned char *at, const unsigned char *end)
{
    uint64_t eight;
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        int found = special_of_sixteen(at);
        if (found)
            return at + __builtin_ctz((unsigned)found);
    }
#endif
    for (; end - at >= 8; at += 8) {
        memcpy(&eight, at, 8);
        if ((eight = special(eight)) == 0)
            continue;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return at + (__builtin_ctzll(eight) >> 3);
#else
        break;
#endif
    }
    while (at < end && *at >= ' ' && *at < 0x80 && *at != '"' && *at != '\\')
        at++;
    return at;
}

static inline int hex_digit(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'f');
}

/* Of halves of characters outside the basic plane none is understood. */
static int escaped(Text *text)
{
    const unsigned char *at = text->at;
    ptrdiff_t left = text->end - at;
    if (left >= 2 && at[1] && strchr("\"\\/bfnrt", at[1])) {
        text->at += 2;
        return 1;
    }
    if (left < 6 || at[1] != 'u' || !hex_digit(at[2]) || !hex_digit(at[3]) || !hex_digit(at[4]) || !hex_digit(at[5]))
        return 0;
    if ((at[2] | 32) == 'd' && at[3] >= '8')
        return 0;
    text->at += 6;
    return 1;
}

/* What stands between the quotes. */
static inline int read_string(Text *text, Span *span)
{
    if (!take(text, '"'))
        return 0;
    span->begin = text->at;
    span->ascii = span->plain = 1;
    for (;;) {
        text->at = past_plain(text->at, text->end);
        if (text->at >= text->end || *text->at < ' ')
            return 0;
        if (*text->at == '"') {
            span->size = (size_t)(text->at++ - span->begin);
            return 1;
        }
        span->plain = 0;
        if (*text->at != '\\') {
            span->ascii = 0;
            text->at++;
        } else if (!escaped(text))
            return 0;
    }
}

static inline int is_digit(const Text *text)
{
    return text->at < text->end && (unsigned)(*text->at - '0') <= 9;
}

static inline int digits(Text *text, Number *number)
{
    const unsigned char *begin = text->at;
    for (; is_digit(text); text->at++)
        number->digits = number->digits * 10 + (*text->at - '0');
    number->count += (int)(text->at - begin < 999 ? text->at - begin : 999);
    return (int)(text->at - begin < 999 ? text->at - begin : 999);
}

static inline int read_number(Text *text, Number *number)
{
    *number = (Number){.begin = text->at, .whole = 1};
    if (text->at < text->end && *text->at == '-') {
        number->negative = 1;
        text->at++;
    }
    if (text->at < text->end && *text->at == '0')
        text->at++;
    else if (!digits(text, number))
        return 0;
    if (text->at < text->end && *text->at == '.') {
        text->at++;
        number->whole = 0;
        if (!(number->decimals = digits(text, number)))
            return 0;
    }
    if (text->at < text->end && (*text->at | 32) == 'e') {
        Number exponent = {0};
        text->at++;
        number->whole = 0;
        number->scaled = 1;
        if (text->at < text->end && (*text->at == '+' || *text->at == '-'))
            text->at++;
        if (!digits(text, &exponent))
            return 0;
    }
    number->size = (size_t)(text->at - number->begin);
    return 1;
}

static inline int read_literal(Text *text, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(text->end - text->at) < size || memcmp(text->at, word, size))
        return 0;
    text->at += size;
    return 1;
}

static int skip_value(Text *text, int depth);

/* The entries up to `close`, of which each is a value, behind a key if `keyed`. */
static int skip_entries(Text *text, int close, int keyed, int depth)
{
    Span key;
    if (take(text, close))
        return 1;
    do {
        if (keyed && !(read_string(text, &key) && take(text, ':')))
            return 0;
        if (!skip_value(text, depth))
            return 0;
    } while (take(text, ','));
    return take(text, close);
}

/* Any value, with up to `depth` others around each other in it. */
static int skip_value(Text *text, int depth)
{
    Span ignored;
    Number skipped;
    int first = next_byte(text);
    if (first == '"')
        return read_string(text, &ignored);
    if (first == '{' || first == '[') {
        text->at++;
        return depth > 0 && skip_entries(text, first + 2, first == '{', depth - 1);
    }
    if (first == 't' || first == 'f' || first == 'n')
        return read_literal(text, first == 't' ? "true" : first == 'f' ? "false" : "null");
    return read_number(text, &skipped);
}

#endif
