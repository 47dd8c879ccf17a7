#include "bench/server/server_bench.h"

#include <bit>
#include <cstring>
#include <ctime>
#include <random>
#include <span>

#include "tensor/optimizer.h"
#include "tensor/reduce.h"

namespace paceline::bench {
namespace {

constexpr tensor::StepContext kStep{.learning_rate = 0.05, .step = 1};

// The arrays of one server and the passes over them.
class Shard {
 public:
  explicit Shard(const ServerBenchOptions& options)
      : unit_(static_cast<std::size_t>(options.unit.count / 4)),
        elements_(static_cast<std::size_t>(options.parameters.count / options.unit.count) * unit_),
        gradients_(static_cast<std::size_t>(options.workers)),
        sum_(elements_),
        values_(elements_),
        momenta_(elements_),
        copied_(elements_),
        scratch_(unit_) {
    std::mt19937 random(1);
    for (auto& gradient : gradients_) fill(gradient, random);
    fill(values_, random);
    first_values_ = values_;
  }

  double bytes() const { return 4.0 * static_cast<double>(elements_); }

  void copy() {
    for_units([&](std::size_t at) { std::memcpy(&copied_[at], &gradients_[0][at], 4 * unit_); });
  }
  void sum() {
    for_units([&](std::size_t at) { tensor::sum_in_rank_order(std::span(sum_).subspan(at, unit_), sources(at), scale()); });
  }
  // Returns whether all sums were finite.
  bool update(tensor::OptimizerKind kind) {
    const tensor::OptimizerOptions optimizer{.kind = kind};
    bool finite = true;
    for_units([&](std::size_t at) {
      const std::span<float> gradient(scratch_);
      tensor::sum_in_rank_order(gradient, sources(at), scale());
      finite = finite && tensor::all_finite(tensor::ConstTensorView(std::span<const float>(gradient)));
      const auto state =
          tensor::state_floats_per_parameter(optimizer) == 0 ? std::span<float>() : std::span(momenta_).subspan(at, unit_);
      tensor::step(optimizer, kStep, std::span(values_).subspan(at, unit_), gradient, state);
    });
    return finite;
  }

  // Each pass once from the initial state, against a plain loop.
  Status verify() {
    copy();
    if (std::memcmp(copied_.data(), gradients_[0].data(), 4 * elements_) != 0)
      return error(ErrorKind::kCorrupt, "the copy differs from its source");
    sum();
    for (std::size_t i = 0; i < elements_; ++i) PACELINE_RETURN_IF_ERROR(same("the sum", i, sum_[i], plain_sum(i)));
    const auto rate = static_cast<float>(kStep.learning_rate);
    const auto factor = static_cast<float>(tensor::OptimizerOptions{}.momentum);
    for (const auto kind : {tensor::OptimizerKind::kSgd, tensor::OptimizerKind::kMomentum}) {
      values_ = first_values_;
      std::ranges::fill(momenta_, 0.5F);
      if (!update(kind)) return error(ErrorKind::kCorrupt, "a finite gradient was taken for one that is not");
      for (std::size_t i = 0; i < elements_; ++i) {
        const float step = kind == tensor::OptimizerKind::kSgd ? plain_sum(i) : factor * 0.5F + plain_sum(i);
        PACELINE_RETURN_IF_ERROR(same(tensor::name_of(kind), i, values_[i], first_values_[i] - rate * step));
      }
    }
    return {};
  }

 private:
  void fill(std::vector<float>& values, std::mt19937& random) const {
    values.resize(elements_);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::ranges::generate(values, [&] { return uniform(random); });
  }
  template <typename Pass>
  void for_units(Pass pass) {
    for (std::size_t at = 0; at < elements_; at += unit_) pass(at);
  }
  std::span<const std::span<const float>> sources(std::size_t at) {
    sources_.clear();
    for (const auto& gradient : gradients_) sources_.push_back(std::span(gradient).subspan(at, unit_));
    return sources_;
  }
  double scale() const { return 1.0 / static_cast<double>(gradients_.size()); }
  float plain_sum(std::size_t i) const {
    float sum = gradients_[0][i];
    for (std::size_t worker = 1; worker < gradients_.size(); ++worker) sum += gradients_[worker][i];
    return sum * static_cast<float>(scale());
  }
  static Status same(const char* what, std::size_t i, float found, float expected) {
    if (std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(expected)) return {};
    return error(ErrorKind::kCorrupt, "{}: element {} is {}, a plain loop gives {}", what, i, found, expected);
  }

  std::size_t unit_;
  std::size_t elements_;
  std::vector<std::vector<float>> gradients_;
  std::vector<float> sum_, values_, momenta_, copied_, scratch_, first_values_;
  std::vector<std::span<const float>> sources_;
};

// Of this thread's core. Not the wall clock: the question is what a core can do, not how many programs share it.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Status check(const ServerBenchOptions& options) {
  const auto between = [](const char* what, std::int64_t value, std::int64_t lowest, std::int64_t highest) -> Status {
    if (value >= lowest && value <= highest) return {};
    return error(ErrorKind::kBadRequest, "{} of {} is not possible; from {} to {} is legal", what, value, lowest, highest);
  };
  PACELINE_RETURN_IF_ERROR(between("a number of runs", options.runs, 1, 1000));
  PACELINE_RETURN_IF_ERROR(between("a number of workers", options.workers, 1, 1000));
  PACELINE_RETURN_IF_ERROR(between("a unit", options.unit.count, 4, 1 << 30));
  PACELINE_RETURN_IF_ERROR(between("an amount of parameters", options.parameters.count, options.unit.count, std::int64_t{1} << 36));
  if (options.unit.count % 4 != 0)
    return error(ErrorKind::kBadRequest, "a unit of {} bytes is not whole parameters of 4 bytes", options.unit.count);
  return {};
}

}  // namespace

Result<ServerBenchReport> run_server_bench(const ServerBenchOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  Shard shard(options);
  PACELINE_RETURN_IF_ERROR(shard.verify());

  const auto rate = [&](double moved_per_byte, auto&& pass) {
    const double start = cpu_seconds();
    pass();
    return moved_per_byte * shard.bytes() / (cpu_seconds() - start);
  };
  const double workers = options.workers;
  std::vector<double> copy, sum, sgd, momentum, sum_ratios, sgd_ratios, momentum_ratios;
  for (int run = 0; run < options.runs; ++run) {
    // The copy on both sides of the others, so that a slow moment of the machine does not make it look good or bad.
    const double before = rate(2, [&] { shard.copy(); });
    sum.push_back(rate(workers + 1, [&] { shard.sum(); }));
    sgd.push_back(rate(workers + 2, [&] { shard.update(tensor::OptimizerKind::kSgd); }));
    momentum.push_back(rate(workers + 4, [&] { shard.update(tensor::OptimizerKind::kMomentum); }));
    const double after = rate(2, [&] { shard.copy(); });
    copy.push_back((before + after) / 2);
    sum_ratios.push_back(sum.back() / copy.back());
    sgd_ratios.push_back(sgd.back() / copy.back());
    momentum_ratios.push_back(momentum.back() / copy.back());
    if (options.on_run) options.on_run(run + 1);
  }
  return ServerBenchReport{.copy = spread(copy),
                           .sum = spread(sum),
                           .update_sgd = spread(sgd),
                           .update_momentum = spread(momentum),
                           .sum_of_copy = median(sum_ratios),
                           .update_sgd_of_copy = median(sgd_ratios),
                           .update_momentum_of_copy = median(momentum_ratios)};
}

}  // namespace paceline::bench
