// The functions of the C interface for collective operations.
#include "library/communicator.h"
#include "library/structs.h"
#include "library/text.h"

using namespace paceline;
using namespace paceline::library;

int32_t paceline_communicator_open(const paceline_communicator_options* options, paceline_communicator** communicator,
                                   paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const paceline_communicator_options known,
                              read_struct(options, "options", offsetof(paceline_communicator_options, job_key_file)));
    PACELINE_RETURN_IF_ERROR(check_given(communicator, "communicator"));
    PACELINE_ASSIGN_OR_RETURN(auto ranks, Ranks::open(known));
    give_handle(std::move(ranks), communicator);
    return {};
  });
}

int32_t paceline_communicator_group(paceline_communicator* parent, int64_t id, const int32_t* ranks, size_t count,
                                    paceline_communicator** group, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(parent));
    PACELINE_RETURN_IF_ERROR(check_given(ranks, "ranks"));
    PACELINE_RETURN_IF_ERROR(check_given(group, "group"));
    if (count > static_cast<std::size_t>(used->all().size()))
      return refusal("illegal", "count", "a group of {} ranks; its parent has {}", count, used->all().size());
    PACELINE_ASSIGN_OR_RETURN(auto made, used->group(id, {ranks, count}));
    give_handle(std::move(made), group);
    return {};
  });
}

int32_t paceline_communicator_describe(const paceline_communicator* communicator, paceline_communicator_info* info,
                                       paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(communicator));
    PACELINE_RETURN_IF_ERROR(check_size(info, "info"));
    write_struct(used->info(), info);
    return {};
  });
}

int32_t paceline_communicator_gone(paceline_communicator* communicator, uint8_t* gone, size_t count, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(communicator));
    PACELINE_RETURN_IF_ERROR(check_given(gone, "gone"));
    if (count != static_cast<std::size_t>(used->all().size()))
      return refusal("illegal", "count", "room for {} ranks; the communicator has {}", count, used->all().size());
    std::fill_n(gone, count, std::uint8_t{0});
    for (const int rank : used->all().gone()) gone[rank] = 1;
    return {};
  });
}

int32_t paceline_communicator_awaited(paceline_communicator* communicator, int32_t* awaited, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(communicator));
    PACELINE_RETURN_IF_ERROR(check_given(awaited, "awaited"));
    *awaited = used->all().is_awaited() ? 1 : 0;
    return {};
  });
}

int32_t paceline_communicator_fail(paceline_communicator* communicator, const char* why, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(communicator));
    PACELINE_RETURN_IF_ERROR(check_given(why, "why"));
    used->fail(why);
    return {};
  });
}

int32_t paceline_collective(paceline_communicator* communicator, const paceline_call* call, paceline_request** request,
                            paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Ranks>(communicator));
    PACELINE_ASSIGN_OR_RETURN(const paceline_call known, read_struct(call, "call", offsetof(paceline_call, gives)));
    PACELINE_RETURN_IF_ERROR(check_given(request, "request"));
    PACELINE_ASSIGN_OR_RETURN(auto operation, begin_operation(used.shared(), known));
    give_handle(std::move(operation), request);
    return {};
  });
}

int32_t paceline_wait(paceline_request* request, double seconds, paceline_error* error) {
  return guarded(error, [&]() -> Result<bool> {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Operation>(request));
    PACELINE_ASSIGN_OR_RETURN(const Duration limit, limit_of(seconds));
    return used->wait(limit);
  });
}

int32_t paceline_request_choice(const paceline_request* request, paceline_text** choice, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Operation>(request));
    PACELINE_RETURN_IF_ERROR(check_given(choice, "choice"));
    give_text(used->choice(), choice);
    return {};
  });
}

int32_t paceline_part(int64_t count, int32_t ranks, int32_t rank, int64_t* first, int64_t* length, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_given(first, "first"));
    PACELINE_RETURN_IF_ERROR(check_given(length, "length"));
    if (count < 0) return refusal("illegal", "count", "{} elements; legal: 0 and more", count);
    if (rank < 0 || rank >= ranks)
      return refusal("illegal", "rank", "rank {} of {}; legal: 0 to below the number of ranks", rank, ranks);
    const collectives::Range range = collectives::part_of(count, ranks, rank);
    *first = range.first;
    *length = range.count;
    return {};
  });
}
