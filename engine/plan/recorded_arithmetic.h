// RecordedArithmetic: how the matrix products of a run are computed, which is chosen once, by
// measurement, kept in its folder (arithmetic.json), and used again wherever the run goes on: other
// choices round otherwise.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"
#include "kernels/ops/cpu_ops.h"

namespace strata::engine {

struct RecordedArithmetic {
  std::string isa;                         // "avx512"
  std::string matmul_library;              // name, version and the instruction set that it uses
  std::string precision;                   // "bf16"
  Dtype default_arithmetic = Dtype::bf16;  // of attention, and of shapes not listed
  std::vector<ops::MatmulChoice> matmuls;  // speeds as measured then

  // Null: not recorded.
  const ops::MatmulChoice* choice_of(const ops::MatmulShape& shape) const;
};

// What arithmetic.json holds, and back. read: throws FormatError.
nlohmann::json arithmetic_json(const RecordedArithmetic& arithmetic);
RecordedArithmetic read_arithmetic(const nlohmann::json& json);

// Throws ConfigError naming the first of instruction set, library, precision and shapes in which
// this run on this machine differs. After ops::attach_cpu_ops().
void require_arithmetic(const RecordedArithmetic& recorded, const RunSetup& setup);

// What a run that goes on (--run DIR --resume) computes with; nothing where it is chosen by
// measuring: there is no record yet, --allow-change lets it differ, or it is for inference on a
// machine that lacks it. Throws as the two above,
// naming the file.
std::optional<RecordedArithmetic> arithmetic_to_keep(const RunSetup& setup);

}  // namespace strata::engine
