// Reads a JSON object whose keys are known, and names every fault by its place and key. For files and questions of people.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "report/report.h"

namespace paceline::report {

// Every error is kBadRequest. Belongs to one thread.
class JsonFields {
 public:
  // `where` begins every sentence: "t.json: layer 2". Refuses what is no object, and keys but `legal`. `object` outlives this.
  static Result<JsonFields> of(const Json& object, std::string where, const std::vector<std::string>& legal);

  // The same object under another name: "t.json: layer 2 'conv1'".
  JsonFields called(std::string where) const { return {*object_, std::move(where)}; }

  bool has(const std::string& key) const { return object_->contains(key); }
  const std::string& where() const { return where_; }
  std::string where(const std::string& key) const;  // "t.json: layer 2: key 'name'"

  // Each refuses a key that is missing, and a value of another type.
  Result<const Json*> value(const std::string& key) const;
  Result<const Json*> array(const std::string& key) const;
  Result<std::string> text(const std::string& key) const;
  Result<bool> truth(const std::string& key) const;
  Result<double> number(const std::string& key, double least, double most = std::numeric_limits<double>::infinity()) const;
  Result<std::int64_t> count(const std::string& key, std::int64_t least = 0) const;  // whole, at most 2^53
  // An array of `size` counts; 0: of any number of them.
  Result<std::vector<std::int64_t>> counts(const std::string& key, std::size_t size) const;

 private:
  JsonFields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const Json* object_;
  std::string where_;
};

}  // namespace paceline::report
