#include "engine/portable/verify.h"

#include "engine/portable/reader.h"

namespace strata::engine {

PortableVerification verify_portable(const std::string& folder) {
  PortableReader reader(folder);
  PortableVerification result;
  result.content = reader.index().content;
  result.step = reader.index().origin.step;
  for (const auto& [name, tensor] : reader.tensors()) {
    const std::size_t ranges = reader.index().tensors.at(name).ranges.size();
    for (std::size_t i = 0; i < ranges; ++i) {
      if (auto damage = reader.damage(tensor, i)) result.damage.push_back(*std::move(damage));
    }
    result.bytes += tensor.elements() * element_bytes(tensor);
  }
  return result;
}

}  // namespace strata::engine
