/* The number of each text met before, so that a text is made an object once. A cache: what is not in it is asked for. */

#ifndef DIAGNOSE_TABLE_H
#define DIAGNOSE_TABLE_H

#include <stdint.h>
#include <stdlib.h>

#include "text.h"

#define PARTS 3
#define LONGEST_KNOWN 4096
#ifndef MOST_HELD
#define MOST_HELD ((size_t)1 << 26) /* bytes of texts; then the table is begun anew */
#define MOST_PROBES 32              /* texts made to collide are no worse than unknown ones */
#endif

typedef struct {
    const Span *part[PARTS]; /* of one without text NULL, too */
} Key;

typedef struct {
    uint64_t hash;
    size_t at; /* of the texts held, where its own begin */
    uint32_t size[PARTS];
    int32_t id;
} Entry;

typedef struct {
    Entry *entries; /* those with a hash of 0 are free */
    unsigned char *held;
    size_t room, used, held_room, held_size;
    uint64_t seed;
} Table;

static inline size_t size_of(const Key *key, int part)
{
    return key->part[part] ? key->part[part]->size : 0;
}

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

/* Up to eight bytes as one word, read without a call for each; the first and the last of four to seven overlap. */
static inline uint64_t word_of(const unsigned char *at, size_t size)
{
    uint64_t word;
    uint32_t first, last;
    if (size >= 8) {
        memcpy(&word, at, 8);
        return word;
    }
    if (size >= 4) {
        memcpy(&first, at, 4);
        memcpy(&last, at + size - 4, 4);
        return (uint64_t)last << 32 | first;
    }
    return size ? (uint64_t)at[0] | (uint64_t)at[size >> 1] << 8 | (uint64_t)at[size - 1] << 16 : 0;
}

/* Of parts without text there is nothing in it. */
static uint64_t hash_of(const Key *key, uint64_t seed)
{
    uint64_t hash = seed;
    for (int part = 0; part < PARTS; part++) {
        size_t size = size_of(key, part), left = size;
        if (!size)
            continue;
        for (const unsigned char *at = key->part[part]->begin; left; at += 8, left -= left < 8 ? left : 8)
            hash = mixed(hash, word_of(at, left));
        hash = mixed(hash, size);
    }
    return mixed(hash, seed) | 1;
}

static inline size_t key_size(const Key *key)
{
    return size_of(key, 0) + size_of(key, 1) + size_of(key, 2);
}

static int is_entry_of(const Table *table, const Entry *entry, const Key *key)
{
    const unsigned char *at = table->held + entry->at;
    for (int part = 0; part < PARTS; part++) {
        size_t size = size_of(key, part);
        if (entry->size[part] != size || (size && memcmp(at, key->part[part]->begin, size)))
            return 0;
        at += size;
    }
    return 1;
}

/* The entry of the key, else a free one for it; NULL where it has none. */
static Entry *entry_of(const Table *table, const Key *key, uint64_t hash)
{
    for (size_t probe = 0; table->room && probe < MOST_PROBES; probe++) {
        Entry *entry = &table->entries[((hash >> 1) + probe) & (table->room - 1)];
        if (!entry->hash || (entry->hash == hash && is_entry_of(table, entry, key)))
            return entry;
    }
    return NULL;
}

static void forget(Table *table)
{
    free(table->entries);
    free(table->held);
    *table = (Table){.seed = table->seed};
}

/* Entries that find no place among as many others are left out. */
static int grow(Table *table)
{
    Table larger = {.room = table->room ? table->room * 2 : 1024, .seed = table->seed};
    larger.entries = calloc(larger.room, sizeof(Entry));
    if (!larger.entries)
        return 0;
    for (size_t each = 0; each < table->room; each++) {
        const Entry *old = &table->entries[each];
        for (size_t probe = 0; old->hash && probe < MOST_PROBES; probe++) {
            Entry *entry = &larger.entries[((old->hash >> 1) + probe) & (larger.room - 1)];
            if (entry->hash)
                continue;
            *entry = *old;
            larger.used++;
            break;
        }
    }
    free(table->entries);
    table->entries = larger.entries;
    table->room = larger.room;
    table->used = larger.used;
    return 1;
}

static int has_room(Table *table, size_t size)
{
    if (table->held_size + size > MOST_HELD)
        forget(table);
    if (table->used * 2 >= table->room && !grow(table))
        return 0;
    if (table->held_size + size >= table->held_room) {
        size_t room = (table->held_size + size + 1) * 2;
        unsigned char *held = realloc(table->held, room);
        if (!held)
            return 0;
        table->held = held;
        table->held_room = room;
    }
    return 1;
}

/* Keeps the number of a key that is not in the table. */
static void keep(Table *table, const Key *key, uint64_t hash, int32_t id)
{
    size_t size = key_size(key);
    Entry *entry;
    if (size > LONGEST_KNOWN || !has_room(table, size) || !(entry = entry_of(table, key, hash)))
        return;
    *entry = (Entry){.hash = hash, .at = table->held_size, .id = id};
    table->used++;
    for (int part = 0; part < PARTS; part++) {
        entry->size[part] = (uint32_t)size_of(key, part);
        if (entry->size[part])
            memcpy(table->held + table->held_size, key->part[part]->begin, entry->size[part]);
        table->held_size += entry->size[part];
    }
}

#endif
