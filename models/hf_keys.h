// HfKeys: the keys of one object of a config.json. What is wrong with a value is written to a list
// that all readers of the file share, so that everything is said at once; the value is then the
// default, or 0. A key that is null counts as missing, as in transformers, unless has() is asked.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace strata::models {

class HfKeys {
 public:
  // `object`, a JSON object, and `problems` are kept by reference. `prefix` stands before the names
  // of keys in what is said: "" or "rope_scaling.".
  HfKeys(const nlohmann::json& object, std::string prefix, std::vector<std::string>& problems);

  // Of an object that the value of `key` is, or stands for.
  HfKeys within(const nlohmann::json& object, const char* key) const {
    return {object, named(key) + ".", problems_};
  }

  bool has(const char* key) const { return object_.contains(key); }  // null or not
  const nlohmann::json& value(const char* key) const;                // null where there is none
  bool missing(const char* key) const { return value(key).is_null(); }
  std::string named(const char* key) const { return prefix_ + key; }

  // Without a default the key has to be there.
  std::int64_t count(const char* key, std::int64_t min, std::int64_t max,
                     std::optional<std::int64_t> missing = std::nullopt) const;
  // Above `above`.
  double number(const char* key, double above, std::optional<double> missing = std::nullopt) const;
  std::optional<double> optional_number(const char* key, double above) const;
  bool flag(const char* key, bool missing) const;
  std::string text(const char* key, const char* missing) const;
  // There is one value that our mathematics has; it is also transformers' default.
  void require(const char* key, const nlohmann::json& supported) const;

  void problem(std::string text) const { problems_.push_back(std::move(text)); }

 private:
  const nlohmann::json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
};

// A value in an error message.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace strata::models
