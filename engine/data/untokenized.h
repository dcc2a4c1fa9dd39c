// UntokenizedFile: data of text where a model needs tokens. What opens the data knows the model,
// and adds to the error how to make them.
#pragma once

#include <string>

#include "kernels/base/error.h"

namespace strata::engine {

class UntokenizedFile : public ConfigError {
 public:
  UntokenizedFile(const std::string& problem, std::string path)
      : ConfigError(problem), path_(std::move(path)) {}
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace strata::engine
