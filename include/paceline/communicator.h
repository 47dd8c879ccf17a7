/* Collective operations between processes in C11, with or without a job. Comes with paceline.h, which says what holds for all
 * calls.
 *
 * All ranks call the same operations in the same order with the same type, count, reduction and root; otherwise all of them
 * fail with the same sentence. After a failure every further call fails with the same reason. Any thread may call; where several
 * do at a time, give each a group, so that the order is the same on all ranks. */
#ifndef PACELINE_COMMUNICATOR_H
#define PACELINE_COMMUNICATOR_H

#include "paceline/error.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* A message of n bytes takes alpha + beta * n seconds, and gamma * n more to be added to something. */
typedef struct paceline_link {
  size_t size;
  double alpha, beta, gamma;
  double residual; /* of the fit: root of the mean squared relative error; 0 when given, not measured */
} paceline_link;

typedef struct paceline_communicator_options {
  size_t size;
  int32_t rank;  /* of this process */
  int32_t ranks; /* with `coordinator`; else 0 or the number of addresses */
  /* Either where each rank listens, by rank, the same list everywhere: "10.0.0.1:4200". */
  const char* const* addresses;
  size_t address_count;
  /* Or where rank 0 listens and tells the others of each other, and this host as the others reach it; NULL: "127.0.0.1",
     or a file beside the coordinator's, which may be "unix:/PATH". */
  const char* coordinator;
  const char* bind;
  /* Instead of measuring it; the same everywhere. */
  const paceline_link* link;
  /* 1: adds in rank order, the same bits whatever the algorithm, but for which of several NaNs; reduce then needs the last
     rank as root. */
  int32_t rank_order;
  /* 1: a broadcast or reduce may end before all ranks have begun it, with fewer messages; ranks that disagree hear of it in
     their next operation. */
  int32_t unconfirmed;
  double connect_seconds; /* for everybody to come; 0: 30 */
  double silence_seconds; /* without a sign of life a rank is lost; 0: 10 */
  double stall_seconds;   /* the longest that an operation may take once it is waited for; 0: 600 */
  double spin_seconds;    /* how long a wait looks without sleeping: saves the time to wake up, costs a processor */
  /* As in paceline_place. Ranks whose keys differ, or of whom only some have one, are refused by each other. */
  const char* job_key_file;
  const char* security;
} paceline_communicator_options;

/* Returns when all ranks are connected and the links are measured. */
int32_t paceline_communicator_open(const paceline_communicator_options* options, paceline_communicator** communicator,
                                   paceline_error* error);
/* Some of a communicator's ranks, ascending and with this one among them. `id`: above 0, the same on all of them, used once.
 * Ranks that give it different lists all fail with a sentence that names two of them and their lists. At most 16254 groups are
 * open at a time; how many have been closed does not matter. A call in a group that another of its ranks has
 * closed fails, with that rank's name. */
int32_t paceline_communicator_group(paceline_communicator* parent, int64_t id, const int32_t* ranks, size_t count,
                                    paceline_communicator** group, paceline_error* error);

typedef struct paceline_communicator_info {
  size_t size;
  int32_t rank;
  int32_t ranks;
  double alpha, beta, gamma, residual; /* what algorithms are chosen for: of the slowest link */
} paceline_communicator_info;

int32_t paceline_communicator_describe(const paceline_communicator* communicator, paceline_communicator_info* info,
                                       paceline_error* error);

/* Says which ranks have left or are lost: gone[rank] becomes 1, else 0. `count`: the communicator's ranks. */
int32_t paceline_communicator_gone(paceline_communicator* communicator, uint8_t* gone, size_t count, paceline_error* error);
/* Says whether another rank has begun the operation that comes next here, as far as this one has heard: then *awaited is 1. */
int32_t paceline_communicator_awaited(paceline_communicator* communicator, int32_t* awaited, paceline_error* error);
/* This rank has failed: others who need it hear `why` when it leaves, instead of that it has finished. Of a group: its
 * communicator's. */
int32_t paceline_communicator_fail(paceline_communicator* communicator, const char* why, paceline_error* error);

/* Operations. */
enum {
  PACELINE_BROADCAST = 1,
  PACELINE_REDUCE = 2,
  PACELINE_ALLREDUCE = 3,
  PACELINE_REDUCE_SCATTER = 4, /* each rank gets its part of the reduced message */
  PACELINE_ALLGATHER = 5,      /* each rank gives its part of the message */
  PACELINE_BARRIER = 6,
  PACELINE_ALLTOALL = 7, /* each rank gives every rank elements of its own, as many as `gives` and `takes` say */
  PACELINE_GATHER = 8,   /* each rank gives `count` elements to the root */
  PACELINE_SCATTER = 9   /* the root gives each rank `count` elements */
};
/* Types of elements that are only moved, beside those of paceline.h: by broadcast, allgather, all-to-all, gather, scatter. Ranks
 * that name different ones disagree. */
enum {
  PACELINE_INT64 = 5,
  PACELINE_INT16 = 6,
  PACELINE_INT8 = 7,
  PACELINE_UINT8 = 8,
  PACELINE_BOOL = 9, /* of one byte */
  PACELINE_UINT16 = 10,
  PACELINE_UINT32 = 11,
  PACELINE_UINT64 = 12,
  PACELINE_COMPLEX32 = 13, /* of two float16 */
  PACELINE_COMPLEX64 = 14,
  PACELINE_COMPLEX128 = 15,
  PACELINE_FLOAT8_E4M3FN = 16,
  PACELINE_FLOAT8_E4M3FNUZ = 17,
  PACELINE_FLOAT8_E5M2 = 18,
  PACELINE_FLOAT8_E5M2FNUZ = 19,
  PACELINE_FLOAT8_E8M0FNU = 20
};
/* Reductions; MEAN not of INT32. */
enum { PACELINE_SUM = 0, PACELINE_MAX = 1, PACELINE_MIN = 2, PACELINE_MEAN = 3 };
/* Algorithms. */
enum {
  PACELINE_BEST = 0, /* the one with the least predicted time */
  PACELINE_LINEAR_PIPELINE = 1,
  PACELINE_MINIMUM_SPANNING_TREE = 2,
  PACELINE_BIDIRECTIONAL_EXCHANGE = 3,
  PACELINE_RING = 4,
  PACELINE_DIRECT = 5
};

/* The same memory as input and output, or two that do not overlap; aligned to the element. They belong to the operation until
 * its end. All-to-all, gather and scatter take two that do not overlap; elements stand there in the order of the ranks. */
typedef struct paceline_call {
  size_t size;
  int32_t operation;
  int32_t type; /* of the elements; barrier: none */
  int32_t reduction;
  int32_t root;     /* broadcast, reduce, gather, scatter: rank in the communicator */
  int32_t priority; /* 0 or more; lower leaves first when several operations are in flight */
  int32_t algorithm;
  int64_t block_bytes; /* of PACELINE_LINEAR_PIPELINE; 0: the best */
  int64_t count;       /* elements of the whole message, the same on all ranks; paceline_part tells which are a rank's part.
                          Gather, scatter: of one rank; all-to-all: 0 */
  const void* input;   /* broadcast, barrier: none. Allgather: this rank's part. Scatter: NULL on other ranks than the root */
  void* output;        /* broadcast: the data. Reduce, gather: NULL on other ranks than the root. Reduce-scatter: its part */
  /* All-to-all: how many elements go to each rank and come from each, by rank; what a rank gives to another one is what that one
     takes of it. Others: NULL. */
  const int64_t* gives;
  const int64_t* takes;
} paceline_call;

/* Begins an operation and returns. */
int32_t paceline_collective(paceline_communicator* communicator, const paceline_call* call, paceline_request** request,
                            paceline_error* error);
/* Returns when the buffers are the caller's again: 0, or why the operation failed. Any number of times. */
int32_t paceline_wait(paceline_request* request, double seconds, paceline_error* error);
/* "lp with blocks of 65536 bytes, predicted 0.0086 s" */
int32_t paceline_request_choice(const paceline_request* request, paceline_text** choice, paceline_error* error);
/* The elements of a message of `count` that belong to `rank` in reduce-scatter and allgather. */
int32_t paceline_part(int64_t count, int32_t ranks, int32_t rank, int64_t* first, int64_t* length, paceline_error* error);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
