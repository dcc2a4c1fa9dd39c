#include "engine/run/step_json.h"

#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

namespace strata::engine {
namespace {

class ObjectWriter {
 public:
  explicit ObjectWriter(LineBuffer& line) : line_(line) {}

  void field(std::string_view name, std::int64_t value) { append(name, value); }

  void field(std::string_view name, double value) {
    if (std::isfinite(value)) {
      append(name, value);
    } else {
      append(name, "null");
    }
  }

  template <typename T>
  void field(std::string_view name, std::optional<T> value) {
    if (value) {
      field(name, *value);
    } else {
      append(name, "null");
    }
  }

  void close() { fmt::format_to(std::back_inserter(line_), "}}\n"); }

 private:
  template <typename T>
  void append(std::string_view name, const T& value) {
    fmt::format_to(std::back_inserter(line_), "{}\"{}\":{}", first_ ? '{' : ',', name, value);
    first_ = false;
  }

  LineBuffer& line_;
  bool first_ = true;
};

}  // namespace

void append_json_line(LineBuffer& line, const StepRecord& record) {
  const auto of_step = [&](auto value) {
    return record.step > 0 ? std::optional(value) : std::nullopt;
  };
  ObjectWriter object(line);
  object.field("step", record.step);
  object.field("epoch", record.epoch);
  object.field("loss", of_step(record.loss));
  object.field("val_loss", record.val_loss);
  object.field("lr", of_step(record.lr));
  object.field("grad_norm", record.grad_norm);
  object.field("tokens", record.tokens);
  object.field("tokens_per_s", of_step(record.tokens_per_s));
  object.field("mfu", of_step(record.mfu));
  object.field("step_s", of_step(record.step_s));
  object.field("bound_s", record.bound_s > 0 ? std::optional(record.bound_s) : std::nullopt);
  object.field("device_peak_bytes", record.device_peak_bytes);
  object.field("host_peak_bytes", record.host_peak_bytes);
  object.field("nvme_read_bytes", of_step(record.nvme_read_bytes));
  object.field("nvme_written_bytes", of_step(record.nvme_written_bytes));
  object.close();
}

}  // namespace strata::engine
