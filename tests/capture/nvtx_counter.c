/* An NVTX tool: writes one line for each range event ("push NAME", "pop", "start NAME", "end") to $NVTX_COUNTER_FILE. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*function_t)(void);
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* 1 char*, 2 wchar_t*, 3 a registered string */
    const void *message;
} attributes_t;
typedef struct {
    size_t size;
    int (*functions_of)(int module, function_t ***table, unsigned *count);
} callbacks_t;

enum { CORE2 = 5, RANGE_START = 2, RANGE_END, PUSH, POP, REGISTER_A = 10, REGISTER_W, CREATE_A, CREATE_W };

static FILE *out;

static void line(const char *event, const char *name) {
    fprintf(out, "%s %s\n", event, name);
    fflush(out);
}

static char *narrow(const wchar_t *wide) {
    char *text = calloc(1, 256);
    wcstombs(text, wide, 255);
    return text;
}

static const char *name_of(const attributes_t *a) {
    return a->message_type == 2 ? narrow(a->message) : (const char *)a->message;
}

static int push(void *domain, const attributes_t *a) { line("push", name_of(a)); return 0; }
static int pop(void *domain) { line("pop", ""); return 0; }
static uint64_t start(void *domain, const attributes_t *a) { line("start", name_of(a)); return 1; }
static void end(void *domain, uint64_t id) { line("end", ""); }
static void *register_a(void *domain, const char *text) { return strdup(text); }
static void *register_w(void *domain, const wchar_t *text) { return narrow(text); }
static void *create_a(const char *name) { return strdup(name); }
static void *create_w(const wchar_t *name) { return narrow(name); }

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const callbacks_t *callbacks = export_table(1);
    function_t **table;
    unsigned count;
    out = fopen(getenv("NVTX_COUNTER_FILE"), "w");
    if (!out || !callbacks->functions_of(CORE2, &table, &count)) return 0;
    *table[RANGE_START] = (function_t)start;
    *table[RANGE_END] = (function_t)end;
    *table[PUSH] = (function_t)push;
    *table[POP] = (function_t)pop;
    *table[REGISTER_A] = (function_t)register_a;
    *table[REGISTER_W] = (function_t)register_w;
    *table[CREATE_A] = (function_t)create_a;
    *table[CREATE_W] = (function_t)create_w;
    return 1;
}
