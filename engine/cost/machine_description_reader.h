// ObjectReader: one object of a machine's description, read strictly. Every value is text with its
// unit ("24GiB", "7GB/s", "165TFLOP/s", "600TBW") or a plain number, and is checked; what nobody
// asked for is an error. All errors are ConfigErrors that name the key: "gpu.memory: …".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::engine {

// Throws ConfigError for what is no JSON, or has a key twice in one object.
nlohmann::json parse_object_text(std::string_view text);

class ObjectReader {
 public:
  static constexpr std::int64_t kBytesMax = std::int64_t{1} << 50;  // what many have can be added

  // `name`: of the object in the description, "" for the whole. `json` outlives the reader.
  ObjectReader(const nlohmann::json& json, std::string name);

  // Whether an optional key is there. The others throw when theirs is missing.
  bool has(const std::string& key);

  std::string text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  int count(const std::string& key, int least, int most);
  double share(const std::string& key);  // above 0, at most 1
  std::int64_t bytes(const std::string& key);
  double bytes_per_s(const std::string& key);
  double flops_per_s(const std::string& key);
  std::int64_t endurance_bytes(const std::string& key);
  std::optional<ObjectReader> object(const std::string& key);

  // Throws for a key that was never asked for, suggesting the nearest of those that were.
  void finish() const;

 private:
  const nlohmann::json& value(const std::string& key);
  // What `parse` makes of the text of a key, its errors with the key's name.
  template <typename Parse>
  auto parsed(const std::string& key, const char* example, const Parse& parse);
  std::string path(const std::string& key) const;

  const nlohmann::json* json_;
  std::string name_;
  std::vector<std::string> known_;
};

}  // namespace strata::engine
