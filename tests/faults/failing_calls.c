// LD_PRELOAD stand-in: makes the n-th system call or allocation fail, come back short, or end the
// process. FAULT_CONTROL names a file of four 64-bit numbers, mapped by every process: calls so
// far, the call at which the fault is made (0: none), faults made, how many calls after that fail,
// too. FAULT_CALLS has a letter for each kind of call that counts: w write, r read, s sync, n
// rename, o open for writing, m malloc. FAULT_HOW is a number of errno, "short", "exit" or "power".
// FAULT_UNDER is the folder whose files count. stdio calls the kernel without these functions, so
// its files have no faults.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kPathSize = 512, kFiles = 64 };
struct Control {
  atomic_long calls, at, faults, more;
};
static struct Control* control;
static const char *calls, *how, *under;
static char unsynced[kFiles][kPathSize];  // "power": files whose contents a power cut would lose

__attribute__((constructor)) static void Open(void) {
  const char* path = getenv("FAULT_CONTROL");
  calls = getenv("FAULT_CALLS");
  how = getenv("FAULT_HOW");
  under = getenv("FAULT_UNDER");
  const int fd = path && calls && how && under ? (int)syscall(SYS_open, path, O_RDWR) : -1;
  if (fd < 0) return;
  void* map = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (map != MAP_FAILED) control = map;
}

static int Counts(char kind) {
  if (!control || !strchr(calls, kind)) return 0;
  const long call = atomic_fetch_add(&control->calls, 1) + 1;
  const long at = atomic_load(&control->at);
  if (at == 0 || call < at || call > at + atomic_load(&control->more)) return 0;
  atomic_fetch_add(&control->faults, 1);
  return 1;
}

static int Lies(const char* path) { return control && !strncmp(path, under, strlen(under)); }

static int PathOf(int fd, char* path) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = syscall(SYS_readlink, link, path, kPathSize - 1);
  path[size > 0 ? size : 0] = 0;
  return size > 0 && Lies(path);
}

static void Rename(const char* from, const char* to) {
  for (int i = 0; i < kFiles; ++i) {
    if (*from ? !strcmp(unsynced[i], from) : !*unsynced[i]) {
      snprintf(unsynced[i], kPathSize, "%s", to);
      return;
    }
  }
}

static void End(void) {
  for (int i = 0; i < kFiles; ++i) {
    if (strcmp(how, "power") == 0 && *unsynced[i]) syscall(SYS_truncate, unsynced[i], 0L);
  }
  syscall(SYS_exit_group, 99);
}

// Returns 1 if this call fails, with errno set.
static int Fails(char kind) {
  if (!Counts(kind)) return 0;
  if (*how == 'e' || *how == 'p') End();
  if (*how == 's') return 0;
  errno = atoi(how);
  return 1;
}

static int FailsOnFd(char kind, int fd) {
  char path[kPathSize];
  return PathOf(fd, path) && Fails(kind);
}

// Returns the bytes that a write or read may carry, or 0 if it fails. A process that ends here
// has written half.
static size_t Allowed(char kind, int fd, const void* bytes, size_t size) {
  char path[kPathSize];
  if (size == 0 || !PathOf(fd, path)) return size;
  if (kind == 'w') Rename(path, ""), Rename("", path);
  if (!Counts(kind)) return size;
  if (*how == 's') return (size + 1) / 2;
  if (*how == 'e' && bytes) syscall(SYS_write, fd, bytes, size / 2);
  if (*how == 'e' || *how == 'p') End();
  errno = atoi(how);
  return 0;
}

#define TRANSFER(kind, bytes, size, ...)                 \
  const size_t allowed = Allowed(kind, fd, bytes, size); \
  if (allowed == 0 && size > 0) return -1;               \
  return syscall(__VA_ARGS__)

ssize_t write(int fd, const void* bytes, size_t size) {
  TRANSFER('w', bytes, size, SYS_write, fd, bytes, allowed);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  TRANSFER('w', NULL, size, SYS_pwrite64, fd, bytes, allowed, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  TRANSFER('w', NULL, size, SYS_pwrite64, fd, bytes, allowed, at);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  TRANSFER('w', NULL, (size_t)count, SYS_writev, fd, parts, allowed);
}
ssize_t read(int fd, void* bytes, size_t size) {
  TRANSFER('r', NULL, size, SYS_read, fd, bytes, allowed);
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  TRANSFER('r', NULL, size, SYS_pread64, fd, bytes, allowed, at);
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) {
  TRANSFER('r', NULL, size, SYS_pread64, fd, bytes, allowed, at);
}

static int Sync(long call, int fd) {
  char path[kPathSize];
  if (PathOf(fd, path)) {
    if (Fails('s')) return -1;
    Rename(path, "");
  }
  return (int)syscall(call, fd);
}
int fsync(int fd) { return Sync(SYS_fsync, fd); }
int fdatasync(int fd) { return Sync(SYS_fdatasync, fd); }
int ftruncate(int fd, off_t size) {
  return FailsOnFd('w', fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

int rename(const char* from, const char* to) {
  char full[2][kPathSize] = {"", ""};
  if (realpath(from, full[0]) && Lies(full[0]) && Fails('n')) return -1;
  const int result = (int)syscall(SYS_rename, from, to);
  if (result == 0 && Lies(full[0]) && realpath(to, full[1])) Rename(full[0], full[1]);
  return result;
}

static int OpenAt(int folder, const char* path, int flags, int mode) {
  const int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
  if (fd < 0 || (flags & O_ACCMODE) == O_RDONLY || !FailsOnFd('o', fd)) return fd;
  const int error = errno;
  syscall(SYS_close, fd);
  if (flags & O_EXCL) syscall(SYS_unlinkat, folder, path, 0);
  errno = error;
  return -1;
}
#define OPEN(name)                              \
  int name(const char* path, int flags, ...) {  \
    va_list more;                               \
    va_start(more, flags);                      \
    const int mode = va_arg(more, int);         \
    va_end(more);                               \
    return OpenAt(AT_FDCWD, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
static int NoMemory(void) {
  if (!Fails('m')) return 0;
  errno = ENOMEM;
  return 1;
}
void* malloc(size_t size) { return NoMemory() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return NoMemory() ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return NoMemory() ? NULL : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) {
  return NoMemory() ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (!memory) return ENOMEM;
  *out = memory;
  return 0;
}
