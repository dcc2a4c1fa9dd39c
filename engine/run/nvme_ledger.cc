#include "engine/run/nvme_ledger.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/options/count_text.h"
#include "engine/options/endurance.h"
#include "engine/run/run_length.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

namespace {

constexpr double kSecondsPerYear = 365.25 * 24 * 3600;

nlohmann::json moved_json(const io::StorageTraffic& moved) {
  return {{"read_bytes", moved.read_bytes}, {"written_bytes", moved.written_bytes}};
}

std::string years_text(double years) {
  constexpr double kDaysPerYear = 365.25;
  if (years >= 10) return fmt::format("{:.0f} years", years);
  if (years >= 1) return fmt::format("{:.1f} years", years);
  const double days = years * kDaysPerYear;
  return days >= 1 ? fmt::format("{:.0f} days", days) : "less than a day";
}

}  // namespace

NvmeLedger::NvmeLedger(const RunSetup& setup, const TrainingData& data, const io::Volume* volume,
                       MeasuringTraffic measuring)
    : volume_(volume),
      ranks_(setup.topology.local_world_size),
      steps_(step_count(setup, data)),
      evaluations_(evaluation_count(setup, data)),
      forecast_(forecast_writes(setup, evaluation_sequences(setup, data))),
      measuring_(std::move(measuring)) {
  if (volume == nullptr) return;
  const auto devices = static_cast<std::size_t>(volume->devices());
  const std::vector<std::int64_t> endurance =
      parse_endurance(setup.options.nvme_endurance, devices);
  std::int64_t stripes = 0;
  for (int d = 0; d < volume->devices(); ++d) stripes += volume->share(d).stripes;
  for (int d = 0; d < volume->devices(); ++d) {
    DriveLife drive;
    drive.path = volume->device_path(d);
    drive.share = static_cast<double>(volume->share(d).stripes) / static_cast<double>(stripes);
    if (!endurance.empty()) drive.endurance_bytes = endurance[static_cast<std::size_t>(d)];
    drives_.push_back(std::move(drive));
  }
  sums_.devices.resize(devices);
  measuring_.by_directory.resize(devices);
}

const NvmeSums* NvmeLedger::update(const offload::Ledger& ledger) {
  if (volume_ == nullptr) return nullptr;
  sums_.moved = ledger.total();
  for (std::size_t d = 0; d < sums_.devices.size(); ++d) {
    sums_.devices[d] = volume_->device_traffic(static_cast<int>(d));
    if (measuring_.beside_volume) sums_.devices[d] += measuring_.by_directory[d];
  }
  return &sums_;
}

double NvmeLedger::life_share(const DriveLife& drive, double written_bytes) const {
  return ranks_ * written_bytes / static_cast<double>(drive.endurance_bytes);
}

double NvmeLedger::life_years(const DriveLife& drive, std::int64_t written_bytes,
                              double run_s) const {
  return run_s / life_share(drive, static_cast<double>(written_bytes)) / kSecondsPerYear;
}

io::StorageTraffic NvmeLedger::total() const {
  io::StorageTraffic total;
  for (const io::StorageTraffic& device : sums_.devices) total += device;
  return total;
}

std::vector<NvmeLedger::Row> NvmeLedger::rows() const {
  using offload::Link;
  std::vector<Row> rows;
  for (const offload::MovedKind kind : offload::kStoredKinds) {
    const offload::Traffic& moved = sums_.moved;
    rows.push_back({name_of(kind),
                    {moved.bytes(Link::nvme_read, kind), moved.bytes(Link::nvme_written, kind)}});
  }
  Row measuring{"measuring", {}};
  for (const io::StorageTraffic& moved : measuring_.by_directory) measuring.moved += moved;
  rows.push_back(std::move(measuring));
  Row metadata{"metadata", total()};
  for (const Row& row : rows) metadata.moved -= row.moved;
  rows.push_back(std::move(metadata));
  return rows;
}

std::string NvmeLedger::forecast_text() const {
  if (volume_ == nullptr) return "";
  return engine::forecast_text(forecast_, steps_, evaluations_, ranks_, drives_);
}

std::string NvmeLedger::summary_text(double run_s) const {
  if (volume_ == nullptr) return "";
  std::string text = fmt::format("  {:<24}{:>12}{:>12}\n", "NVMe bytes", "read", "written");
  const auto add_line = [&](const std::string& name, const io::StorageTraffic& moved) {
    if (moved.read_bytes == 0 && moved.written_bytes == 0) return;
    text += fmt::format("    {:<22}{:>12}{:>12}\n", name, format_bytes(moved.read_bytes),
                        format_bytes(moved.written_bytes));
  };
  for (const Row& row : rows()) add_line(row.name, row.moved);
  for (std::size_t d = 0; d < drives_.size(); ++d) {
    const DriveLife& drive = drives_[d];
    add_line("in " + drive.path, sums_.devices[d]);
    if (drive.endurance_bytes == 0 || sums_.devices[d].written_bytes == 0) continue;
    const std::int64_t written_bytes = sums_.devices[d].written_bytes;
    text += fmt::format("      {} of its life ({}), which at this rate would be {}\n",
                        life_share_text(life_share(drive, static_cast<double>(written_bytes))),
                        endurance_text(drive.endurance_bytes),
                        years_text(life_years(drive, written_bytes, run_s)));
  }
  return text;
}

nlohmann::json NvmeLedger::summary_json(double run_s) const {
  if (volume_ == nullptr) return {};
  nlohmann::json json;
  json["planned_written_bytes"] = forecast_.total_bytes(steps_, evaluations_);
  for (const Row& row : rows()) json["by_kind"][row.name] = moved_json(row.moved);
  for (std::size_t d = 0; d < drives_.size(); ++d) {
    const DriveLife& drive = drives_[d];
    nlohmann::json entry = moved_json(sums_.devices[d]);
    entry["path"] = drive.path;
    if (drive.endurance_bytes > 0) {
      const std::int64_t written_bytes = sums_.devices[d].written_bytes;
      entry["endurance_bytes"] = drive.endurance_bytes;
      entry["life_share"] = life_share(drive, static_cast<double>(written_bytes));
      entry["life_years"] = life_years(drive, written_bytes, run_s);
    }
    json["by_device"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace strata::engine
