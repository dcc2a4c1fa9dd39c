#include "engine/run/step_json.h"

#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

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
      null(name);
    }
  }

  template <typename T>
  void field(std::string_view name, std::optional<T> value) {
    if (value) {
      field(name, *value);
    } else {
      null(name);
    }
  }

  // {"weights":[read,written],…}
  void nvme_by_kind(std::string_view name, const offload::Traffic& moved) {
    using offload::Link;
    append(name, "{");
    for (const offload::MovedKind kind : offload::kStoredKinds) {
      if (kind != offload::kStoredKinds.front()) append_raw(",");
      append_raw("\"{}\":", name_of(kind));
      append_pair({moved.bytes(Link::nvme_read, kind), moved.bytes(Link::nvme_written, kind)});
    }
    append_raw("}}");
  }

  // [[read,written],…]
  void field(std::string_view name, std::span<const io::StorageTraffic> devices) {
    append(name, "[");
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (d > 0) append_raw(",");
      append_pair(devices[d]);
    }
    append_raw("]");
  }

  void null(std::string_view name) { append(name, "null"); }

  void close() { append_raw("}}\n"); }

 private:
  template <typename T>
  void append(std::string_view name, const T& value) {
    append_raw("{}\"{}\":{}", first_ ? '{' : ',', name, value);
    first_ = false;
  }

  void append_pair(const io::StorageTraffic& traffic) {
    append_raw("[{},{}]", traffic.read_bytes, traffic.written_bytes);
  }

  template <typename... Args>
  void append_raw(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
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
  object.field("targets", of_step(record.targets));
  object.field("padding", of_step(record.padding));
  object.field("tokens_per_s", of_step(record.tokens_per_s));
  object.field("mfu", of_step(record.mfu));
  object.field("step_s", of_step(record.step_s));
  object.field("cpu_s", of_step(record.cpu_s));
  object.field("bound_s", record.bound_s > 0 ? std::optional(record.bound_s) : std::nullopt);
  object.field("device_peak_bytes", record.device_peak_bytes);
  object.field("host_peak_bytes", record.host_peak_bytes);
  for (int l = 0; l < offload::kLinks; ++l) {
    const auto link = static_cast<offload::Link>(l);
    object.field(key_of(link), of_step(record.traffic.bytes(link)));
  }
  object.field("commit_written_bytes", of_step(record.commit_written_bytes));
  object.field("committed_step", record.committed_step);
  if (record.nvme_sums != nullptr) {
    object.nvme_by_kind("nvme_by_kind", record.nvme_sums->moved);
    object.field("nvme_by_device", std::span(record.nvme_sums->devices));
  } else {
    object.null("nvme_by_kind");
    object.null("nvme_by_device");
  }
  object.close();
}

}  // namespace strata::engine
