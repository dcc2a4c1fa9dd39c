// What is trained on and what is validated on, from the options that name it.
#include "engine/data/training_data.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;
using test::read_all;
using Ids = std::vector<std::int32_t>;

TEST(TrainingData, TheLastTokensOfAllFilesAreHeldOut) {
  const test::DataFolder folder;
  folder.write("1.txt", "abcdefg");
  folder.write("2.txt", "hij");
  Options options;
  options.data = folder.path("?.txt");
  options.val_fraction = 0.4;
  const TrainingData data = open_training_data(options, 256, 3);
  EXPECT_EQ(read_all(*data.train), (Ids{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(read_all(*data.validation), (Ids{'g', 'h', 'i', 'j'}));
  EXPECT_EQ(data.train_samples, 1);  // a second one takes tokens 3 to 6
  EXPECT_EQ(data.validation_samples, 1);
}

TEST(TrainingData, ErrorsNameTheOption) {
  const test::DataFolder folder;
  Options options;
  options.data = folder.write("a.txt", "abcdefg");
  options.val_data = folder.write("b.jsonl", "{}");
  const auto refused = [&] {
    return error_text<ConfigError>([&] { (void)open_training_data(options, 256, 3); });
  };
  EXPECT_TRUE(mentions(refused(), "--val-data: '" + options.val_data + "' has no tokens"));
  options.val_data = folder.write("b.txt", "abc");
  EXPECT_TRUE(mentions(refused(), "the validation data has 3 tokens, but one sequence takes 4"));
  options.data = folder.path("*.bin");
  EXPECT_TRUE(mentions(refused(), "--data: no file matches '"));
}

// Before training, also in a file that is not the first.
TEST(TrainingData, AnIdOutsideTheVocabularyIsFoundAtTheStart) {
  const test::DataFolder folder;
  folder.write("a.bin", test::bytes_of(std::vector<std::uint16_t>(100, 1)));
  folder.write("b.bin", test::bytes_of(std::vector<std::uint16_t>{1, 1, 1, 512}));
  Options options;
  options.data = folder.path("*.bin");
  const auto message = error_text<FormatError>([&] { (void)open_training_data(options, 512, 3); });
  EXPECT_TRUE(mentions(message, "--data: '" + folder.path("b.bin") + "': id 512 at position 3"))
      << message;
}

}  // namespace
}  // namespace strata::engine
