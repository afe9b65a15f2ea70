// A CUDA driver without a GPU. The device's memory is one range that a simulator in another process has too; each launch is a line
// to it and an answer; everything else happens at once.
//
// MOCK_CUDA="MEMORY SIZE TO FROM": the file of the memory, its size, and the pipes to the simulator and from it.
// Lines to the simulator:
//   B base size            where the memory begins in this process
//   M module bytes         a module; its PTX follows
//   F module name          a kernel; the answer is the number of its parameters and the size of each in bytes, or -1
//   L module name grid block shared parameters...     a launch; the answer is 0, or 1 for an error
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int Result;
typedef uint64_t Pointer;
typedef void* Handle;
typedef unsigned long long Long;

enum { SUCCESS = 0, INVALID_IMAGE = 200, NO_BINARY_FOR_GPU = 209, NOT_FOUND = 500, LAUNCH_FAILED = 719 };

typedef struct {
  int module;
  char name[512];
  int count;
  int sizes[256];
} Function;

// ---------------------------------------------------------------- counters

enum { LAUNCHES, COPIES, FILLS, ALLOCATIONS, WAITS, COUNTERS };
static uint64_t counters[COUNTERS];
uint64_t mock_counter(int i) { return __atomic_load_n(&counters[i], __ATOMIC_SEQ_CST); }
void mock_reset(void) { memset(counters, 0, sizeof counters); }
static void count(int i) { __atomic_add_fetch(&counters[i], 1, __ATOMIC_SEQ_CST); }

// ---------------------------------------------------------------- memory and the simulator

static uint8_t* memory;
static uint64_t end, size;
static FILE *to, *from;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void start(void) {
  if (memory) return;
  const char* text = getenv("MOCK_CUDA");
  int file, in, out;
  Long bytes;
  if (!text || sscanf(text, "%d %llu %d %d", &file, &bytes, &out, &in) != 4) {
    fprintf(stderr, "the mock driver requires MOCK_CUDA\n");
    abort();
  }
  size = bytes;
  memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  to = fdopen(out, "w");
  from = fdopen(in, "r");
  if (memory == MAP_FAILED || !to || !from) abort();
  fprintf(to, "B %llu %llu\n", (Long)(uintptr_t)memory, (Long)size);
  fflush(to);
}

static Result allocate(Pointer* p, size_t bytes) {
  pthread_mutex_lock(&lock);
  start();
  end = (end + 511) & ~511ull;
  *p = (Pointer)(uintptr_t)memory + end;
  end += bytes ? bytes : 1;
  pthread_mutex_unlock(&lock);
  count(ALLOCATIONS);
  return end > size ? 2 : SUCCESS;
}

static int answer(void) {
  int value = -1;
  return fscanf(from, "%d", &value) == 1 ? value : -1;
}

// ---------------------------------------------------------------- devices, contexts, events, streams

static int context;
static Result handle(Handle* h) { return (*h = malloc(8)) ? SUCCESS : 2; }

Result cuGetErrorName(Result e, const char** s) { *s = "MOCK_ERROR"; return SUCCESS; }
Result cuGetErrorString(Result e, const char** s) {
  *s = e == NO_BINARY_FOR_GPU ? "the mock driver requires PTX, got machine code" : "an error of the mock driver";
  return SUCCESS;
}
Result cuDriverGetVersion(int* v) { *v = 13000; return SUCCESS; }
Result cuInit(unsigned f) { start(); return SUCCESS; }
Result cuCtxCreate(Handle* c, unsigned f, int d) { *c = &context; return SUCCESS; }
Result cuCtxDestroy(Handle c) { return SUCCESS; }
Result cuDevicePrimaryCtxRetain(Handle* c, int d) { *c = &context; return SUCCESS; }
Result cuDevicePrimaryCtxRelease(int d) { return SUCCESS; }
Result cuCtxSetCurrent(Handle c) { return SUCCESS; }
Result cuCtxGetCurrent(Handle* c) { *c = &context; return SUCCESS; }
Result cuCtxPushCurrent(Handle c) { return SUCCESS; }
Result cuCtxPopCurrent(Handle* c) { *c = &context; return SUCCESS; }
Result cuDeviceGet(int* d, int i) { *d = i; return SUCCESS; }
Result cuDeviceGetCount(int* n) { *n = 1; return SUCCESS; }
Result cuDeviceGetName(char* s, int n, int d) { snprintf(s, n, "mock"); return SUCCESS; }
Result cuDeviceGetUuid(void* u, int d) { memset(u, 7, 16); return SUCCESS; }
Result cuDeviceGetAttribute(int* v, int attribute, int d) {
  switch (attribute) {  // those of an H100
    case 1: case 2: case 3: *v = 1024; break;     // threads in a block
    case 4: *v = 64; break;                       // its third axis
    case 5: *v = 2147483647; break;               // blocks in a grid
    case 6: case 7: *v = 65535; break;
    case 8: *v = 49152; break;                    // shared memory of a block
    case 10: *v = 32; break;                      // threads in a warp
    case 16: *v = 132; break;                     // multiprocessors
    case 18: *v = 0; break;                       // not integrated
    case 75: *v = 9; break;                       // compute capability
    case 76: *v = 0; break;
    case 81: *v = 233472; break;                  // shared memory of a multiprocessor
    case 97: *v = 232448; break;                  // of a block that asks for more
    default: *v = 1;
  }
  return SUCCESS;
}
Result cuEventCreate(Handle* e, unsigned f) { return handle(e); }
Result cuEventDestroy(Handle e) { free(e); return SUCCESS; }
Result cuEventElapsedTime(float* t, Handle a, Handle b) { *t = 0; return SUCCESS; }
Result cuEventQuery(Handle e) { return SUCCESS; }
Result cuEventRecord(Handle e, Handle s) { return SUCCESS; }
Result cuEventSynchronize(Handle e) { count(WAITS); return SUCCESS; }
Result cuStreamCreate(Handle* s, unsigned f) { return handle(s); }
Result cuStreamDestroy(Handle s) { free(s); return SUCCESS; }
Result cuStreamSynchronize(Handle s) { count(WAITS); return SUCCESS; }
Result cuStreamWaitEvent(Handle s, Handle e, unsigned f) { return SUCCESS; }
Result cuLaunchHostFunc(Handle s, void (*f)(void*), void* d) { f(d); return SUCCESS; }

// ---------------------------------------------------------------- allocations, copies, fills

Result cuMemAllocManaged(Pointer* p, size_t n, unsigned f) { return allocate(p, n); }
Result cuMemPrefetchAsync(Pointer p, size_t n, int d, Handle s) { return SUCCESS; }
Result cuMemAlloc(Pointer* p, size_t n) { return allocate(p, n); }
Result cuMemFree(Pointer p) { return SUCCESS; }
Result cuMemFreeHost(void* p) { return SUCCESS; }
Result cuMemHostAlloc(void** p, size_t n, unsigned f) { return allocate((Pointer*)p, n); }
Result cuMemHostRegister(void* p, size_t n, unsigned f) { return SUCCESS; }
Result cuMemHostUnregister(void* p) { return SUCCESS; }
Result cuMemHostGetDevicePointer(Pointer* p, void* h, unsigned f) { *p = (Pointer)(uintptr_t)h; return SUCCESS; }
Result cuMemPoolCreate(Handle* p, void* properties) { return handle(p); }
Result cuMemPoolDestroy(Handle p) { free(p); return SUCCESS; }
Result cuMemPoolSetAccess(Handle p, void* d, size_t n) { return SUCCESS; }
Result cuMemPoolGetAttribute(Handle p, int a, void* v) { *(uint64_t*)v = 0; return SUCCESS; }
Result cuMemPoolSetAttribute(Handle p, int a, void* v) { return SUCCESS; }
Result cuMemPoolTrimTo(Handle p, size_t n) { return SUCCESS; }
Result cuMemAllocFromPoolAsync(Pointer* p, size_t n, Handle pool, Handle s) { return allocate(p, n); }
Result cuMemFreeAsync(Pointer p, Handle s) { return SUCCESS; }
Result cuMemGetInfo_v2(size_t* f, size_t* t) { *t = size; *f = size - end; return SUCCESS; }
Result cuMemsetD32Async(Pointer p, unsigned v, size_t n, Handle s) {
  count(FILLS);
  for (size_t i = 0; i < n; i++) ((uint32_t*)p)[i] = v;
  return SUCCESS;
}
Result cuMemsetD16Async(Pointer p, unsigned short v, size_t n, Handle s) {
  count(FILLS);
  for (size_t i = 0; i < n; i++) ((uint16_t*)p)[i] = v;
  return SUCCESS;
}
Result cuMemsetD8Async(Pointer p, unsigned char v, size_t n, Handle s) { count(FILLS); memset((void*)p, v, n); return SUCCESS; }
Result cuMemcpyAsync(Pointer d, Pointer s, size_t n, Handle stream) { count(COPIES); memmove((void*)d, (void*)s, n); return SUCCESS; }
Result cuMemcpyHtoDAsync(Pointer d, const void* s, size_t n, Handle stream) { count(COPIES); memmove((void*)d, s, n); return SUCCESS; }

// ---------------------------------------------------------------- modules and launches

static int modules;

Result cuModuleLoadDataEx(Handle* m, const void* image, unsigned n, void* options, void* values) {
  if (!memcmp(image, "\x7f" "ELF", 4)) return NO_BINARY_FOR_GPU;
  pthread_mutex_lock(&lock);
  start();
  fprintf(to, "M %d %zu\n", modules, strlen(image));
  fwrite(image, 1, strlen(image), to);
  fflush(to);
  *m = (Handle)(intptr_t)(++modules);
  int code = answer();
  pthread_mutex_unlock(&lock);
  return code ? INVALID_IMAGE : SUCCESS;
}
Result cuModuleUnload(Handle m) { return SUCCESS; }
Result cuModuleGetFunction(Handle* f, Handle m, const char* name) {
  Function* x = calloc(1, sizeof *x);
  x->module = (int)(intptr_t)m - 1;
  strncpy(x->name, name, sizeof x->name - 1);
  *f = x;
  pthread_mutex_lock(&lock);
  fprintf(to, "F %d %s\n", x->module, name);
  fflush(to);
  x->count = answer();
  for (int i = 0; i < x->count && i < 256; i++) x->sizes[i] = answer();
  pthread_mutex_unlock(&lock);
  return x->count < 0 || x->count > 256 ? NOT_FOUND : SUCCESS;
}
Result cuModuleGetGlobal(Pointer* p, size_t* n, Handle m, const char* name) { return NOT_FOUND; }
Result cuFuncSetAttribute(Handle f, int a, int v) { return SUCCESS; }
Result cuLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Handle s,
                      void** parameters, void** extra) {
  Function* x = f;
  count(LAUNCHES);
  pthread_mutex_lock(&lock);
  char line[8192];
  int used = snprintf(line, sizeof line, "L %d %s %u %u %u %u %u %u %u", x->module, x->name, gx, gy, gz, bx, by, bz, shared);
  for (int i = 0; i < x->count; i++) {
    Long value = 0;
    // Behind its own, IREE's list of places of parameters holds the parameters: a launch with too few reads an address of the device.
    if ((Pointer)parameters[i] - (Pointer)(uintptr_t)memory < size && x->sizes[i] == 8) {
      fprintf(stderr, "%s requires %d parameters, got %d\n", x->name, x->count, i);
      pthread_mutex_unlock(&lock);
      return 1;
    }
    memcpy(&value, parameters[i], x->sizes[i]);
    used += snprintf(line + used, sizeof line - used, " %llu", value);
  }
  fprintf(to, "%s\n", line);
  fflush(to);
  int code = answer();
  pthread_mutex_unlock(&lock);
  return code ? LAUNCH_FAILED : SUCCESS;
}

// ---------------------------------------------------------------- graphs, which IREE asks for and does not use here

Result cuGraphAddEmptyNode(Handle* n, Handle g, void* d, size_t c) { return NOT_FOUND; }
Result cuGraphAddEventRecordNode(Handle* n, Handle g, void* d, size_t c, Handle e) { return NOT_FOUND; }
Result cuGraphAddMemcpyNode(Handle* n, Handle g, void* d, size_t c, void* p, Handle x) { return NOT_FOUND; }
Result cuGraphAddMemsetNode(Handle* n, Handle g, void* d, size_t c, void* p, Handle x) { return NOT_FOUND; }
Result cuGraphAddKernelNode(Handle* n, Handle g, void* d, size_t c, void* p) { return NOT_FOUND; }
Result cuGraphCreate(Handle* g, unsigned f) { return NOT_FOUND; }
Result cuGraphDestroy(Handle g) { return NOT_FOUND; }
Result cuGraphExecDestroy(Handle g) { return NOT_FOUND; }
Result cuGraphGetNodes(Handle g, Handle* n, size_t* c) { return NOT_FOUND; }
Result cuGraphInstantiate(Handle* e, Handle g, Handle* n, char* b, size_t z) { return NOT_FOUND; }
Result cuGraphLaunch(Handle e, Handle s) { return NOT_FOUND; }

Result cuGetProcAddress(const char* name, void** f, int version, uint64_t flags) {
  static Handle self;
  if (!self) {
    Dl_info info;
    dladdr((void*)cuInit, &info);
    self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }
  *f = dlsym(self, name);
  if (*f) return SUCCESS;
  fprintf(stderr, "the mock driver does not have %s\n", name);
  return NOT_FOUND;
}
