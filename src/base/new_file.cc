#include "base/new_file.h"

#include <filesystem>
#include <utility>

#include <unistd.h>

namespace paceline {

Result<std::unique_ptr<NewFile>> NewFile::create(Files& files, const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(std::string target, files.destination(path));
  for (int number = 0;; ++number) {
    std::string temporary = fmt::format("{}.{}-{}{}", target, ::getpid(), number, kTemporarySuffix);
    auto writer = files.create(temporary);
    if (!writer.ok() && writer.status().kind() == ErrorKind::kOverloaded) continue;
    PACELINE_RETURN_IF_ERROR(writer.status());
    return std::unique_ptr<NewFile>(new NewFile(files, std::move(target), std::move(temporary), std::move(*writer)));
  }
}

NewFile::~NewFile() {
  writer_.reset();
  if (!has_name_) (void)files_.remove_file(temporary_);
}

Status NewFile::finish() {
  PACELINE_RETURN_IF_ERROR(writer_->finish());
  PACELINE_RETURN_IF_ERROR(files_.rename(temporary_, path_));
  has_name_ = true;
  return {};
}

Status write_file(Files& files, const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  PACELINE_ASSIGN_OR_RETURN(const auto file, NewFile::create(files, path));
  for (const auto piece : pieces) PACELINE_RETURN_IF_ERROR(file->writer().append(piece));
  PACELINE_RETURN_IF_ERROR(file->finish());
  const std::string directory = std::filesystem::path(file->path()).parent_path().string();
  return files.sync_directory(directory.empty() ? "." : directory);
}

Status write_file(Files& files, const std::string& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return write_file(files, path, {&bytes, 1});
}

Status can_write(Files& files, const std::string& path) { return NewFile::create(files, path).status(); }

}  // namespace paceline
