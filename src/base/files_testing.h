// A disk in memory for tests: counts operations, fails the n-th, and forgets on demand what was not synchronised, as a machine does
// that loses power. One thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/new_file.h"

namespace paceline::testing {

class MemoryFiles : public Files {
 public:
  struct Content {
    std::vector<std::byte> bytes;
    std::vector<std::byte> synced;  // what would be left
  };
  // What a directory's entries would be after a loss of power is what they were when it was synchronised.
  std::map<std::string, std::shared_ptr<Content>> files, durable;
  std::set<std::string> directories;
  int operations = 0;
  int fail_at = -1;              // this operation fails
  bool fail_ever_after = false;  // and all after it: the process is gone

  Status operation(const char* what, const std::string& path) {
    const int number = operations++;
    const bool fails = fail_at >= 0 && (fail_ever_after ? number >= fail_at : number == fail_at);
    return fails ? error(ErrorKind::kIo, "cannot {} {}: No space left on device", what, path) : Status();
  }

  void lose_power() {
    files.clear();
    for (const auto& [path, content] : durable) {
      content->bytes = content->synced;
      files[path] = content;
    }
    fail_at = -1;
  }

  class Writer final : public FileWriter {
   public:
    Writer(MemoryFiles& files, std::string path, std::shared_ptr<Content> content)
        : files_(files), path_(std::move(path)), content_(std::move(content)) {}
    Status append(std::span<const std::byte> bytes) override {
      const Status status = files_.operation("write", path_);
      // A disk that fills up takes a part.
      content_->bytes.insert(content_->bytes.end(), bytes.begin(),
                             bytes.begin() + static_cast<std::ptrdiff_t>(status.ok() ? bytes.size() : bytes.size() / 2));
      return status;
    }
    Status overwrite_beginning(std::span<const std::byte> bytes) override {
      PACELINE_RETURN_IF_ERROR(files_.operation("write", path_));
      std::ranges::copy(bytes, content_->bytes.begin());
      return {};
    }
    Status finish() override {
      PACELINE_RETURN_IF_ERROR(files_.operation("write", path_));
      content_->synced = content_->bytes;
      return {};
    }

   private:
    MemoryFiles& files_;
    std::string path_;
    std::shared_ptr<Content> content_;
  };

  class Reader final : public FileReader {
   public:
    explicit Reader(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
    std::uint64_t size() const override { return bytes_.size(); }
    Status read(std::uint64_t offset, std::span<std::byte> to) const override {
      if (offset > bytes_.size() || to.size() > bytes_.size() - offset) return error(ErrorKind::kCorrupt, "cut off");
      if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
      return {};
    }

   private:
    std::vector<std::byte> bytes_;
  };

  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string&) override { return std::make_unique<DirectoryLock>(); }
  Result<std::unique_ptr<FileWriter>> create(const std::string& path) override {
    PACELINE_RETURN_IF_ERROR(operation("create", path));
    const auto content = std::make_shared<Content>();
    files[path] = content;
    return std::unique_ptr<FileWriter>(new Writer(*this, path, content));
  }
  Result<std::unique_ptr<FileReader>> open(const std::string& path) override {
    const auto file = files.find(path);
    if (file == files.end()) return error(ErrorKind::kIo, "cannot read {}: No such file or directory", path);
    return std::unique_ptr<FileReader>(new Reader(file->second->bytes));
  }
  Result<std::string> destination(const std::string& path) override { return path; }
  Status make_directories(const std::string& path) override {
    PACELINE_RETURN_IF_ERROR(operation("make the directory", path));
    directories.insert(path);
    return {};
  }
  Status rename(const std::string& from, const std::string& to) override {
    PACELINE_RETURN_IF_ERROR(operation("rename", from));
    move_in(files, from, to);
    return {};
  }
  Status sync_directory(const std::string& path) override {
    PACELINE_RETURN_IF_ERROR(operation("write", path));
    std::erase_if(durable, [&](const auto& entry) { return parent(entry.first) == path && !files.contains(entry.first); });
    for (const auto& [name, content] : files) {
      if (parent(name) == path) durable[name] = content;
    }
    return {};
  }
  // The unluckiest order: it is gone for good at once.
  Status remove_file(const std::string& path) override {
    PACELINE_RETURN_IF_ERROR(operation("remove", path));
    files.erase(path);
    durable.erase(path);
    return {};
  }
  // A directory is there as long as something is in it.
  Status remove_directory_if_empty(const std::string& path) override { return operation("remove the directory", path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::set<std::string> names;
    for (const auto& [name, content] : files) {
      if (!name.starts_with(path + "/")) continue;
      const std::string rest = name.substr(path.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

 private:
  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static void move_in(std::map<std::string, std::shared_ptr<Content>>& all, const std::string& from, const std::string& to) {
    std::map<std::string, std::shared_ptr<Content>> moved;
    std::erase_if(all, [&](const auto& entry) {
      if (entry.first != from && !entry.first.starts_with(from + "/")) return false;
      moved[to + entry.first.substr(from.size())] = entry.second;
      return true;
    });
    for (auto& [path, content] : moved) all[path] = content;
  }
};

}  // namespace paceline::testing
