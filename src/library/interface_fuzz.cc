// Calls of the C interface in any order with any arguments: handles of every kind, closed ones and made-up ones, structs of wrong
// sizes, numbers out of range. Every call returns a kind and says why; what was opened can be closed; nothing else happens.
#include "library/interface_arguments_testing.h"

namespace paceline::library::testing {
namespace {

class Caller : Arguments {
 public:
  using Arguments::Arguments;

  void call() {
    using Call = void (Caller::*)();
    static constexpr Call kCalls[] = {&Caller::close, &Caller::text,       &Caller::make_job, &Caller::set,
                                      &Caller::add,   &Caller::coordinate, &Caller::join,     &Caller::wait,
                                      &Caller::end,   &Caller::train,      &Caller::step,     &Caller::open,
                                      &Caller::group, &Caller::collective, &Caller::request,  &Caller::begin_job};
    (this->*data_.PickValueInArray(kCalls))();
  }

 private:
  void close() {
    void* const handle = any<void>();
    const bool known = std::erase(handles_, handle) > 0;
    const std::int32_t kind = paceline_close(handle, 0, error());
    check(kind);
    if (known && kind == PACELINE_DONE) closed_ = handle;
    if (known && kind != PACELINE_DONE) handles_.push_back(handle);  // the error could not be filled
    require(known || kind != PACELINE_DONE);
  }
  void text() {
    const char* bytes = nullptr;
    std::size_t count = 0;
    const std::int32_t kind = paceline_text_bytes(any<paceline_text>(), null_or(bytes), null_or(count), error());
    check(kind);
    if (kind == PACELINE_DONE && bytes != nullptr && count > 0) require(bytes[count] == 0);
    paceline_text* answer = nullptr;
    keep(paceline_ask(null_or(*words()), null_or(*words()), &answer, error()), answer);
    static_cast<void>(paceline_struct_size(words()));
  }
  void make_job() {
    paceline_job* job = nullptr;
    keep(paceline_job_new(&job, error()), job);
  }
  void set() {
    paceline_text* value = nullptr;
    check(paceline_job_set(any<paceline_job>(), words(), words(), error()));
    keep(paceline_job_get(any<paceline_job>(), words(), &value, error()), value);
  }
  void add() {
    const std::int64_t shape[3] = {data_.ConsumeIntegralInRange(-1, 30), data_.ConsumeIntegralInRange(0, 30), 2};
    auto tensor = sized<paceline_tensor>();
    tensor.name = null_or(*words());
    tensor.shape = null_or(shape[0]);
    tensor.dimensions = data_.ConsumeIntegralInRange<std::size_t>(0, 3);
    tensor.type = data_.ConsumeBool() ? 0 : number();
    tensor.frozen = number() == 1 ? 1 : 0;
    tensor.layer = data_.ConsumeIntegralInRange(-1, 3);
    std::uint32_t given = 0;
    check(paceline_job_add_tensor(any<paceline_job>(), null_or(tensor), null_or(given), error()));
    const float* const arrays[2] = {null_or(numbers_[0]), numbers_.data()};
    check(paceline_job_set_state(any<paceline_job>(), up_to(3), null_or(arrays[0]), up_to(2), number(), error()));
  }
  paceline_place where() {
    auto place = sized<paceline_place>();
    place.role = number();
    place.rank = data_.ConsumeIntegralInRange(-2, 1);
    place.workers = data_.ConsumeIntegralInRange(-1, 2);
    place.servers = data_.ConsumeIntegralInRange(-1, 2);
    place.coordinator = null_or(*words());
    return place;
  }
  void coordinate() {
    if (nodes_++ == kMostNodes) return;
    paceline_node* node = nullptr;
    const paceline_place place = where();
    if (data_.ConsumeBool())
      keep(paceline_coordinate(any<paceline_job>(), null_or(place), &node, error()), node);
    else
      keep(paceline_serve(any<paceline_job>(), null_or(place), &node, error()), node);
  }
  void join() {
    if (nodes_++ == kMostNodes) return;
    paceline_node* node = nullptr;
    paceline_place place = where();
    paceline_text* address = nullptr;
    const char* bytes = nullptr;
    if (paceline_node_address(any<paceline_node>(), &address, nullptr) == PACELINE_DONE) {
      handles_.push_back(address);
      if (paceline_text_bytes(address, &bytes, nullptr, nullptr) == PACELINE_DONE) place.coordinator = bytes;
    }
    keep(paceline_join(any<paceline_job>(), null_or(place), &node, error()), node);
  }
  // A whole job of one worker, so that what comes next has something to disturb.
  void begin_job() {
    if (nodes_ > 0) return;
    nodes_ = kMostNodes;
    error_ = {};
    paceline_job* job = nullptr;
    paceline_node *coordinator = nullptr, *worker = nullptr;
    paceline_text* address = nullptr;
    keep(paceline_job_new(&job, nullptr), job);
    if (data_.ConsumeBool()) check(paceline_job_set(job, "optimizer", data_.ConsumeBool() ? "mean" : "adam", nullptr));
    if (data_.ConsumeBool()) check(paceline_job_set(job, "verdict", "1", nullptr));
    for (int layer = 0; layer < 3; ++layer) {
      static constexpr const char* kNames[] = {"a", "b", "c"};
      paceline_tensor tensor{};
      tensor.size = sizeof tensor;
      tensor.name = kNames[layer];
      tensor.layer = layer;
      tensor.frozen = data_.ConsumeIntegralInRange(0, 3) == 0 ? 1 : 0;
      check(paceline_job_add_tensor(job, &tensor, nullptr, nullptr));
    }
    paceline_place place{};
    place.size = sizeof place;
    place.role = PACELINE_BOTH;
    place.rank = -1;
    place.workers = place.servers = 1;
    keep(paceline_coordinate(job, &place, &coordinator, nullptr), coordinator);
    keep(paceline_node_address(coordinator, &address, nullptr), address);
    require(paceline_text_bytes(address, &place.coordinator, nullptr, nullptr) == PACELINE_DONE);
    keep(paceline_join(job, &place, &worker, nullptr), worker);
    if (worker != nullptr) check(paceline_wait_joined(worker, 10, nullptr));
    for (int more = 0; more < 8 && worker != nullptr; ++more) handles_.push_back(worker);  // likely to be chosen
  }
  void wait() {
    check(paceline_wait_joined(any<paceline_node>(), seconds(), error()));
    check(paceline_wait_layer(any<paceline_node>(), number(), number(), seconds(), error()));
    check(paceline_wait_all(any<paceline_node>(), number(), seconds(), error()));
    check(paceline_wait_free(any<paceline_node>(), number(), seconds(), error()));
    float* first = nullptr;
    std::int64_t count = 0;
    check(paceline_tensor_value(any<paceline_node>(), data_.ConsumeIntegral<std::uint8_t>(), null_or(first), null_or(count),
                                error()));
    check(paceline_tensor_gradient(any<paceline_node>(), data_.ConsumeIntegral<std::uint8_t>(), null_or(first), null_or(count),
                                   error()));
    const float* array = nullptr;
    check(paceline_gather_state(any<paceline_node>(), seconds(), error()));
    check(paceline_tensor_state(any<paceline_node>(), up_to(3), up_to(2), null_or(array), null_or(count), null_or(count), error()));
    auto info = sized<paceline_info>();
    paceline_text* text = nullptr;
    check(paceline_node_info(any<paceline_node>(), null_or(info), error()));
    keep(paceline_node_report(any<paceline_node>(), &text, error()), text);
  }
  void end() {
    const int how = data_.ConsumeIntegralInRange(0, 2);
    if (how == 0) check(paceline_finish(any<paceline_node>(), seconds(), error()));
    if (how == 1) check(paceline_fail(any<paceline_node>(), number(), words(), error()));
    if (how == 2) check(paceline_interrupt(any<paceline_node>(), error()));
  }
  void train() {
    const std::int32_t order[2] = {0, number()};
    check(paceline_set_order(any<paceline_node>(), null_or(order[0]), up_to(2), error()));
    check(paceline_tell_rates(any<paceline_node>(), number(), null_or(input_[0]), null_or(input_[1]), 1, error()));
    check(paceline_tell_left_out(any<paceline_node>(), number(), error()));
    const char* texts[2] = {words(), null_or(*words())};
    check(paceline_tell_alike(any<paceline_node>(), number(), null_or(texts[0]), null_or(texts[1]), up_to(2), error()));
    check(paceline_gradient_ready(any<paceline_node>(), up_to(3), null_or(numbers_[0]), error()));
    const std::uint32_t unused[2] = {up_to(3), up_to(3)};
    check(paceline_backward_done(any<paceline_node>(), number(), null_or(unused[0]), up_to(2), error()));
  }
  void step() {
    auto step = sized<paceline_step>();
    const double phases[PACELINE_PHASES] = {data_.ConsumeFloatingPoint<double>(), 1};
    step.samples = data_.ConsumeIntegral<std::int64_t>();
    step.loss = data_.ConsumeFloatingPoint<double>();
    step.phase_seconds = null_or(phases[0]);
    step.phases = data_.PickValueInArray<std::size_t>({0, PACELINE_PHASES, 99});
    std::uint8_t unused[4];
    auto verdict = sized<paceline_verdict>();
    verdict.unused = null_or(unused[0]);
    verdict.tensors = data_.ConsumeIntegralInRange<std::size_t>(0, 4);
    check(paceline_wait_verdict(any<paceline_node>(), number(), seconds(), null_or(verdict), error()));
    std::int32_t stopping = 0;
    check(paceline_step_done(any<paceline_node>(), null_or(step), null_or(stopping), error()));
  }
  void open() {
    if (nodes_++ == kMostNodes) return;
    const char* addresses[2] = {"127.0.0.1:0", words()};
    auto link = sized<paceline_link>();
    auto options = sized<paceline_communicator_options>();
    options.rank = data_.ConsumeIntegralInRange(-1, 1);
    options.ranks = data_.ConsumeIntegralInRange(-1, 2);
    options.addresses = null_or(addresses[0]);
    options.address_count = data_.ConsumeIntegralInRange<std::size_t>(0, 2);
    options.link = null_or(link);
    options.connect_seconds = 0.002;
    options.stall_seconds = data_.ConsumeBool() ? 0 : seconds();
    paceline_communicator* all = nullptr;
    keep(paceline_communicator_open(null_or(options), &all, error()), all);
  }
  void group() {
    const std::int32_t ranks[2] = {number(), number()};
    paceline_communicator* group = nullptr;
    auto info = sized<paceline_communicator_info>();
    keep(paceline_communicator_group(any<paceline_communicator>(), number(), null_or(ranks[0]),
                                     data_.ConsumeIntegralInRange<std::size_t>(0, 2), &group, error()),
         group);
    check(paceline_communicator_describe(any<paceline_communicator>(), null_or(info), error()));
  }
  void collective() {
    auto call = sized<paceline_call>();
    call.operation = number();
    call.type = number();
    call.reduction = number();
    call.root = number();
    call.algorithm = number();
    call.block_bytes = number();
    call.count = data_.ConsumeIntegralInRange(-1, 8);
    call.input = null_or(input_[0]);
    call.output = data_.ConsumeBool() ? const_cast<void*>(call.input) : null_or(output_[0]);
    paceline_request* request = nullptr;
    keep(paceline_collective(any<paceline_communicator>(), null_or(call), &request, error()), request);
  }
  void request() {
    paceline_text* choice = nullptr;
    check(paceline_wait(any<paceline_request>(), seconds(), error()));
    keep(paceline_request_choice(any<paceline_request>(), &choice, error()), choice);
    std::int64_t first = 0, length = 0;
    check(paceline_part(data_.ConsumeIntegral<std::int64_t>(), number(), number(), null_or(first), null_or(length), error()));
  }

  static constexpr int kMostNodes = 3;
  int nodes_ = 0;
  double input_[8] = {}, output_[8] = {};
};

}  // namespace
}  // namespace paceline::library::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  paceline::library::testing::Caller caller(data);
  for (int calls = 0; calls < 60 && data.remaining_bytes() > 0; ++calls) caller.call();
  return 0;
}
