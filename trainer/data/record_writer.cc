#include <algorithm>

#include "base/checksum.h"
#include "base/new_file.h"
#include "trainer/data/record_format.h"
#include "trainer/data/records.h"

namespace paceline::trainer::data {
namespace {

using namespace record_format;

// The file being written, and how much of it is.
class Output {
 public:
  explicit Output(FileWriter& file) : file_(file) {}

  Status write(std::span<const std::byte> bytes) {
    written_ += static_cast<std::int64_t>(bytes.size());
    return file_.append(bytes);
  }
  std::int64_t written() const { return written_; }

 private:
  FileWriter& file_;
  std::int64_t written_ = 0;
};

std::vector<std::byte> header_of(const DatasetPair& pair, std::int64_t per_block, std::int64_t file_bytes) {
  const Form& form = pair.train->form();
  const bool images = form.content == Content::kImages;
  const std::string name = pair.name.substr(0, kLongestName);
  std::vector<std::byte> header;
  const auto* magic = reinterpret_cast<const std::byte*>(kMagic);
  header.insert(header.end(), magic, magic + 8);
  const std::size_t channels = images ? static_cast<std::size_t>(form.shape[0]) : 0;
  append(header, kVersion);
  append(header, static_cast<std::uint32_t>(kFixed + name.size() + channels * 8 + 4));
  append(header, static_cast<std::uint32_t>(images ? kImageRecords : kTextRecords));
  for (std::size_t i = 0; i < 3; ++i) append(header, static_cast<std::uint32_t>(images ? form.shape[i] : 0));
  append(header, form.classes);
  append(header, form.source_vocabulary);
  append(header, pair.train->size());
  append(header, pair.test->size());
  append(header, per_block);
  append(header, file_bytes);
  append(header, static_cast<std::uint32_t>(name.size()));
  append(header, std::uint32_t{0});
  const auto* letters = reinterpret_cast<const std::byte*>(name.data());
  header.insert(header.end(), letters, letters + name.size());
  for (std::size_t c = 0; c < channels; ++c) {
    append(header, form.normalisation.mean[c]);
    append(header, form.normalisation.deviation[c]);
  }
  append(header, crc32c(header));
  return header;
}

void append_tokens(std::vector<std::byte>& payload, std::span<const std::int64_t> tokens) {
  for (const std::int64_t token : tokens) append(payload, static_cast<std::int32_t>(token));
}

void append_record(const Sample& sample, Content content, std::vector<std::byte>& payload) {
  if (content == Content::kImages) {
    append(payload, static_cast<std::int32_t>(sample.target.front()));
    const auto pixels = std::as_bytes(std::span(sample.pixels));
    payload.insert(payload.end(), pixels.begin(), pixels.end());
    return;
  }
  append(payload, static_cast<std::uint32_t>(sample.tokens.size()));
  append(payload, static_cast<std::uint32_t>(sample.target.size()));
  append_tokens(payload, sample.tokens);
  append_tokens(payload, sample.target);
}

Status write_block(Output& output, std::vector<std::byte>& payload, std::uint32_t& records) {
  if (records == 0) return {};
  std::vector<std::byte> head;
  append(head, static_cast<std::uint64_t>(payload.size()));
  append(head, records);
  append(head, crc32c(payload, crc32c(head)));
  PACELINE_RETURN_IF_ERROR(output.write(head));
  PACELINE_RETURN_IF_ERROR(output.write(payload));
  payload.clear();
  records = 0;
  return {};
}

Status write_half(const Dataset& set, std::int64_t per_block, Output& output,
                  const std::function<Status(std::int64_t)>& on_written) {
  const Content content = set.form().content;
  Sample sample;
  std::vector<std::byte> payload;
  std::uint32_t records = 0;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(set.load(i, sample));
    PACELINE_RETURN_IF_ERROR(set.decode(i, sample));
    append_record(sample, content, payload);
    ++records;
    const bool full = content == Content::kImages ? records == per_block : static_cast<std::int64_t>(payload.size()) >= kBlockBytes;
    if (full) PACELINE_RETURN_IF_ERROR(write_block(output, payload, records));
    PACELINE_RETURN_IF_ERROR(on_written(i + 1));
  }
  return write_block(output, payload, records);
}

}  // namespace

Status pack(const DatasetPair& pair, const std::filesystem::path& file, const std::function<Status(std::int64_t)>& on_progress) {
  const Form& form = pair.train->form();
  PACELINE_CHECK(form == pair.test->form(), "the halves of {} differ in form", pair.name);
  if (form.content == Content::kImages && (form.shape[0] > kMostChannels || input_values(form) > kLargestInput)) {
    return error(ErrorKind::kBadRequest, "{}: samples of {} values, a record file holds at most {}", pair.name, input_values(form),
                 kLargestInput);
  }
  const std::int64_t per_block =
      form.content == Content::kImages ? std::max<std::int64_t>(1, kBlockBytes / (4 + input_values(form))) : 0;
  PACELINE_ASSIGN_OR_RETURN(const auto packed, NewFile::create(system_files(), file.string()));
  Output output(packed->writer());
  PACELINE_RETURN_IF_ERROR(output.write(header_of(pair, per_block, 0)));
  PACELINE_RETURN_IF_ERROR(write_half(*pair.train, per_block, output, on_progress));
  PACELINE_RETURN_IF_ERROR(
      write_half(*pair.test, per_block, output, [&](std::int64_t done) { return on_progress(pair.train->size() + done); }));
  PACELINE_RETURN_IF_ERROR(packed->writer().overwrite_beginning(header_of(pair, per_block, output.written())));
  return packed->finish();
}

}  // namespace paceline::trainer::data
