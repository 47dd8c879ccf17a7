#include "paceline/profile/reading.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <spng.h>
#include <unistd.h>

#include "base/clock.h"
#include "trainer/data/mini_batch.h"
#include "trainer/data/open.h"
#include "trainer/data/records.h"
#include "trainer/data/sampler.h"

namespace paceline::cli {
namespace {

namespace data = trainer::data;

// Smooth colours with some noise, which compress about as photographs do.
std::vector<std::uint8_t> pixels_of(std::int64_t side, std::int64_t number) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side * side * 3));
  std::uint32_t noise = static_cast<std::uint32_t>(number) * 2654435761U + 1;
  std::size_t at = 0;
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x) {
      for (std::int64_t colour = 0; colour < 3; ++colour) {
        noise = noise * 1664525U + 1013904223U;
        pixels[at++] = static_cast<std::uint8_t>((x * (colour + 1) + y * (3 - colour) + number * 7) / 2 % 240 + (noise >> 28));
      }
    }
  }
  return pixels;
}

Status write_png(const std::filesystem::path& path, std::int64_t side, const std::vector<std::uint8_t>& pixels) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) return error(ErrorKind::kIo, "{} cannot be written: {}", path.string(), std::strerror(errno));
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), &spng_ctx_free);
  spng_ihdr head{};
  head.width = head.height = static_cast<std::uint32_t>(side);
  head.bit_depth = 8;
  head.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  int problem = spng_set_png_file(context.get(), file.get());
  if (problem == 0) problem = spng_set_ihdr(context.get(), &head);
  if (problem == 0) problem = spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  if (problem == 0) return {};
  return error(ErrorKind::kIo, "{} cannot be written: {}", path.string(), spng_strerror(problem));
}

// Asks the system to drop what it holds of the files in memory.
void forget(const std::filesystem::path& files) {
  const auto one = [](const std::filesystem::path& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);  // only what is on the disk can be dropped
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    close(descriptor);
  };
  if (!std::filesystem::is_directory(files)) return one(files);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(files)) {
    if (entry.is_regular_file()) one(entry.path());
  }
}

Result<ReadingTime> read_once(const data::Dataset& dataset, std::int64_t mini_batch, const Clock& clock) {
  const std::int64_t size = std::min(mini_batch, dataset.size());
  PACELINE_ASSIGN_OR_RETURN(data::Sampler sampler, data::Sampler::make(dataset, {.seed = 1, .workers = 1, .mini_batch = size}));
  ReadingTime sum;
  data::MiniBatch batch;
  const std::int64_t iterations = sampler.iterations_per_data_epoch();
  for (Iteration iteration = 1; iteration <= iterations; ++iteration) {
    PACELINE_RETURN_IF_ERROR(assemble(dataset, sampler.samples(iteration, Rank{0}), clock, batch));
    sum.load += batch.load_seconds;
    sum.preprocess += batch.preprocess_seconds;
  }
  const auto samples = static_cast<double>(iterations * size);
  return ReadingTime{sum.load / samples, sum.preprocess / samples};
}

}  // namespace

Status write_images(const std::filesystem::path& folder, std::int64_t side, std::int64_t count, std::int64_t classes) {
  for (std::int64_t label = 0; label < classes; ++label)
    std::filesystem::create_directories(folder / fmt::format("class-{:03}", label));
  for (std::int64_t number = 0; number < count; ++number) {
    const auto path = folder / fmt::format("class-{:03}", number % classes) / fmt::format("{:06}.png", number);
    PACELINE_RETURN_IF_ERROR(write_png(path, side, pixels_of(side, number)));
  }
  return {};
}

Result<Reading> measure_reading(const std::string& dataset, const std::filesystem::path& data_root,
                                const std::filesystem::path& files, std::int64_t mini_batch) {
  const SystemClock clock;
  PACELINE_ASSIGN_OR_RETURN(const data::DatasetPair pair, data::open(dataset, data_root));
  forget(files);
  Reading reading;
  PACELINE_ASSIGN_OR_RETURN(reading.cold, read_once(*pair.train, mini_batch, clock));
  PACELINE_ASSIGN_OR_RETURN(reading.warm, read_once(*pair.train, mini_batch, clock));
  return reading;
}

Status pack_records(const std::string& dataset, const std::filesystem::path& data_root, const std::filesystem::path& file) {
  PACELINE_ASSIGN_OR_RETURN(const data::DatasetPair pair, data::open(dataset, data_root));
  return data::pack(pair, file, [](std::int64_t) { return Status(); });
}

}  // namespace paceline::cli
