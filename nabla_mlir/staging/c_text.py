"""The fixed parts of the C source of a static library: memory, dispatches, state, and the frame of a function."""

MEMORY = """#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Memory at multiples of 64 bytes, as the machine code expects it; the blocks of one call are linked. */
struct block { struct block *next; void *start, *memory; };

static void *take(struct block **arena, size_t size) {
  struct block *block = malloc(sizeof(struct block));
  char *start = malloc(size + 64);
  if (!block || !start) { free(block); free(start); return 0; }
  block->next = *arena;
  block->start = start;
  block->memory = start + (64 - (uintptr_t)start % 64);
  *arena = block;
  return block->memory;
}

static inline void give(struct block **arena, void *memory) {
  for (struct block **link = arena; *link; link = &(*link)->next) {
    struct block *block = *link;
    if (block->memory == memory) {
      *link = block->next;
      free(block->start);
      free(block);
      return;
    }
  }
}

static void give_all(struct block **arena) {
  while (*arena) {
    struct block *block = *arena;
    *arena = block->next;
    free(block->start);
    free(block);
  }
}

static inline void *aligned(struct block **arena, char *memory, size_t size) {
  if (memory && (uintptr_t)memory % 64 == 0) return memory;
  void *copy = take(arena, size);
  if (copy && memory) memcpy(copy, memory, size);
  return copy;
}

/* A global array: where it is now, where it was before the call, and memory of its own. */
struct memory { char *now, *before, *storage; size_t size, room; };
"""

DISPATCHES = """/* IREE's interface of executable libraries, version 6. */
struct environment { const uint32_t *constants; void *imports[3]; uint64_t processor[8]; };
struct dispatch {
  uint32_t size_x, size_y; uint16_t size_z, constant_count;
  uint32_t count_x, count_y; uint16_t count_z; uint8_t max_concurrency, binding_count;
  const uint32_t *constants; void *const *bindings; const size_t *lengths;
};
struct workgroup { uint32_t x, y; uint16_t z, reserved; uint32_t processor; void *memory; uint32_t memory_size; };
typedef int (*function)(const struct environment *, const struct dispatch *, const struct workgroup *);
struct attributes {
  uint64_t flags; uint16_t memory_pages; uint8_t constant_count, binding_count;
  uint32_t size_x, size_y; uint16_t size_z, parameter_count; uint64_t reserved[5];
};
struct library {
  const struct { uint32_t version; const char *name; } *header;
  uint32_t import_count; const char *const *imports;
  uint32_t count; const function *functions; const struct attributes *attributes;
  const void *parameters, *occupancy; const char *const *names;
};
extern const struct library *QUERY(uint32_t version, const struct environment *environment);

static const char *const dispatch_names[] = {NAMES};
enum { DISPATCHES = sizeof(dispatch_names) / sizeof(*dispatch_names) };
static const struct environment environment;
static function functions[DISPATCHES];
static struct attributes attributes[DISPATCHES];

static int find_dispatches(void) {
  const struct library *library = QUERY(6, &environment);
  if (!library || library->header->version != 6 || !library->names) return NABLA_VERSION;
  for (int i = 0; i < DISPATCHES; ++i)
    for (uint32_t k = 0; k < library->count; ++k)
      if (!strcmp(dispatch_names[i], library->names[k])) {
        functions[i] = library->functions[k];
        attributes[i] = library->attributes[k];
      }
  for (int i = 0; i < DISPATCHES; ++i)
    if (!functions[i]) return NABLA_VERSION;
  return NABLA_OK;
}

static int run(int i, const uint32_t *constants, uint16_t constant_count, void **bindings, const size_t *lengths,
               uint8_t binding_count, uint32_t x, uint32_t y, uint32_t z) {
  struct dispatch state = {
    attributes[i].size_x, attributes[i].size_y, attributes[i].size_z, constant_count, x, y, (uint16_t)z, 1, binding_count,
    constants, bindings, lengths,
  };
  struct workgroup group = {0};
  struct block *arena = 0;
  int status = NABLA_OK;
  group.memory_size = attributes[i].memory_pages * 4096u;
  if (group.memory_size && !(group.memory = take(&arena, group.memory_size))) return NABLA_NO_MEMORY;
  for (uint32_t c = 0; c < z && !status; ++c)
    for (uint32_t b = 0; b < y && !status; ++b)
      for (uint32_t a = 0; a < x && !status; ++a) {
        group.x = a; group.y = b; group.z = (uint16_t)c;
        if (functions[i](&environment, &state, &group)) status = NABLA_DISPATCH;
      }
  give_all(&arena);
  return status;
}
"""

STATE = """static struct memory *const memories[] = {STATE};

/* After a call: arrays that it changed move into memory of their own, or go back to what they were. */
static int keep(int status, struct block **arena) {
  for (int i = 0; i < COUNT && !status; ++i) {
    struct memory *m = memories[i];
    if (m->now == m->before) continue;
    char *copy = take(arena, m->size);  /* copied first, because it may be in the memory of another one */
    if (!copy) status = NABLA_NO_MEMORY;
    else m->now = memcpy(copy, m->now, m->size);
  }
  for (int i = 0; i < COUNT; ++i) {
    struct memory *m = memories[i];
    if (status || m->now == m->before) { m->now = m->before; continue; }
    if (m->room < m->size) {
      char *room = realloc(m->storage, m->size + 64);
      if (!room) { status = NABLA_NO_MEMORY; m->now = m->before; continue; }
      m->storage = room;
      m->room = m->size;
    }
    m->now = memcpy(m->storage + (64 - (uintptr_t)m->storage % 64), m->now, m->size);
  }
  return status;
}
"""

BODY = """  int status = NABLA_OK;
  ARENAstruct block *arena = 0;
BODY
  goto no_memory;
no_memory:
  status = NABLA_NO_MEMORY;
done:;
"""

INITIALIZE = """static int initialize(void) {
  static int ready = 0;
  if (ready) return NABLA_OK;
  int status = find_dispatches();
CALLS  ready = !status;
  return status;
}
"""

PROLOGUE = """  int failed = initialize();
  if (failed) return failed;
  for (int i = 0; i < (int)(sizeof(memories) / sizeof(*memories)) && memories[i]; ++i) memories[i]->before = memories[i]->now;
"""

EPILOGUE = """  status = keep(status, &arena);
  give_all(&arena);
"""
