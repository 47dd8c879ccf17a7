// For LD_PRELOAD (test_files.py): kills whoever writes a server's part of a checkpoint.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int descriptor, const void* bytes, size_t count) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/server-0.bin") != NULL) raise(SIGKILL);
  return ((ssize_t (*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write"))(descriptor, bytes, count);
}
