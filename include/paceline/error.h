/* How calls of the C interface end, and what they are made on: errors, handles, texts. Comes with paceline.h. */
#ifndef PACELINE_ERROR_H
#define PACELINE_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Kinds, by what the caller can do. As a program's exit code: 2 for BAD_REQUEST, 130 for CANCELLED, else 1. */
enum {
  PACELINE_DONE = 0,
  PACELINE_BAD_REQUEST = 1, /* correct the call, or make the workers agree */
  PACELINE_PEER_LOST = 2,   /* a process died, went silent or left: start it again, or go on without it */
  PACELINE_DEADLINE = 3,    /* everybody is alive, but there was no progress within the job's limit */
  PACELINE_CANCELLED = 4,   /* somebody asked to stop */
  PACELINE_OVERLOADED = 5,  /* a stated limit is reached, or memory is: try again later */
  PACELINE_CORRUPT = 6,     /* bytes failed their check */
  PACELINE_IO = 7,          /* the system refused: an address that is in use, a disk, rights */
  PACELINE_AGAIN = 8        /* no failure: the call's own limit has passed; call again */
};

typedef struct paceline_error {
  size_t size;
  int32_t kind;
  char code[16];      /* for programs: "illegal", "port-in-use", ...; else the kind's name. paceline_ask("errors") explains each */
  char subject[64];   /* what is wrong, as the user names it: "--momentum"; or "" */
  char message[1024]; /* one sentence for people: who, what, where, what is legal. If it is longer, its middle is left out */
} paceline_error;

typedef struct paceline_job paceline_job;                   /* what is to be trained and how; no threads */
typedef struct paceline_node paceline_node;                 /* a coordinator, server or worker of a job */
typedef struct paceline_communicator paceline_communicator; /* ranks that reduce, with or without a job: communicator.h */
typedef struct paceline_request paceline_request;           /* a collective operation in flight */
typedef struct paceline_text paceline_text;                 /* a text that the library has made */

/* Ends any handle. A node whose job goes on leaves it; the job then fails for the others, unless they need the node no more. A
 * coordinator ends its job. A request waits for its end, since its buffers are in use. A communicator leaves once its groups
 * and requests are closed too. What is still to be sent may take `seconds`, at most 10. */
int32_t paceline_close(void* handle, double seconds, paceline_error* error);

/* `bytes` end with a 0 that `count` does not count, and are there until the text is closed. Either pointer may be NULL. */
int32_t paceline_text_bytes(const paceline_text* text, const char** bytes, size_t* count, paceline_error* error);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
