#include "engine/plan/recorded_arithmetic.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/options/option_changes.h"
#include "engine/options/run_files.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::array kKinds = {ops::MatmulKind::forward, ops::MatmulKind::backward_input,
                               ops::MatmulKind::backward_weight};

constexpr const char* name_of(ops::MatmulKind kind) {
  switch (kind) {
    case ops::MatmulKind::forward:
      return "forward";
    case ops::MatmulKind::backward_input:
      return "backward_input";
    case ops::MatmulKind::backward_weight:
      return "backward_weight";
  }
  return "";
}

ops::MatmulKind parse_kind(std::string_view text) {
  for (const ops::MatmulKind kind : kKinds) {
    if (text == name_of(kind)) return kind;
  }
  throw_error<FormatError>("'{}' is no kind of matrix product", text);
}

Dtype parse_dtype(std::string_view text) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    if (text == strata::name_of(dtype)) return dtype;
  }
  throw_error<FormatError>("'{}' is neither f32 nor bf16", text);
}

void require_same(const char* what, const std::string& recorded, const std::string& here) {
  if (recorded == here) return;
  throw_error<ConfigError>("the {} was {} and is {} here", what, recorded, here);
}

}  // namespace

const ops::MatmulChoice* RecordedArithmetic::choice_of(const ops::MatmulShape& shape) const {
  const auto choice = std::find_if(matmuls.begin(), matmuls.end(), [&](const auto& recorded) {
    return recorded.kind == shape.kind && recorded.n == shape.n && recorded.k == shape.k;
  });
  return choice == matmuls.end() ? nullptr : &*choice;
}

nlohmann::json arithmetic_json(const RecordedArithmetic& arithmetic) {
  nlohmann::json json = {{"isa", arithmetic.isa},
                         {"matmul_library", arithmetic.matmul_library},
                         {"precision", arithmetic.precision},
                         {"default", strata::name_of(arithmetic.default_arithmetic)},
                         {"matmuls", nlohmann::json::array()}};
  for (const ops::MatmulChoice& choice : arithmetic.matmuls) {
    json["matmuls"].push_back({{"kind", name_of(choice.kind)},
                               {"n", choice.n},
                               {"k", choice.k},
                               {"arithmetic", strata::name_of(choice.arithmetic)},
                               {"flops_per_s", choice.flops_per_s}});
  }
  return json;
}

RecordedArithmetic read_arithmetic(const nlohmann::json& json) {
  const auto text = [](const nlohmann::json& value) { return value.get<std::string>(); };
  try {
    RecordedArithmetic arithmetic{text(json.at("isa")),
                                  text(json.at("matmul_library")),
                                  text(json.at("precision")),
                                  parse_dtype(text(json.at("default"))),
                                  {}};
    for (const nlohmann::json& choice : json.at("matmuls")) {
      arithmetic.matmuls.push_back(
          {parse_kind(text(choice.at("kind"))), choice.at("n").get<std::int64_t>(),
           choice.at("k").get<std::int64_t>(), parse_dtype(text(choice.at("arithmetic"))),
           choice.at("flops_per_s").get<double>()});
    }
    return arithmetic;
  } catch (const nlohmann::json::exception& e) {
    throw_error<FormatError>("no arithmetic of a run: {}", e.what());
  }
}

void require_arithmetic(const RecordedArithmetic& recorded, const RunSetup& setup) {
  require_same("instruction set", recorded.isa, strata::name_of(setup.isa));
  require_same("library of matrix products", recorded.matmul_library, matmul_library(setup.device));
  require_same("precision", recorded.precision, strata::name_of(setup.shape.precision));
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    if (recorded.choice_of(shape) != nullptr) continue;
    throw_error<ConfigError>("how to multiply {} with weights of {} x {} is not recorded",
                             name_of(shape.kind), shape.n, shape.k);
  }
}

std::optional<RecordedArithmetic> arithmetic_to_keep(const RunSetup& setup) {
  const Options& options = setup.options;
  if (!options.resume || allows_other_arithmetic(options)) return std::nullopt;
  const std::string path = (std::filesystem::path(options.run) / kArithmeticFile).string();
  const std::optional<std::string> text = io::read_file(path);
  if (!text) return std::nullopt;
  try {
    RecordedArithmetic recorded = read_arithmetic(nlohmann::json::parse(*text));
    require_arithmetic(recorded, setup);
    return recorded;
  } catch (const nlohmann::json::exception& e) {
    throw_error<FormatError>("{}: not valid JSON: {}", path, e.what());
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", path, e.what());
  } catch (const ConfigError& e) {
    if (setup.shape.purpose == Purpose::inference) return std::nullopt;
    throw_error<ConfigError>(
        "{}: {}, so the run would round otherwise; go on on a machine as it had, or "
        "--allow-change {}",
        path, e.what(), kArithmeticChange);
  }
}

}  // namespace strata::engine
