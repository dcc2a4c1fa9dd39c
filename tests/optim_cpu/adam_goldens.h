// Written by scripts/make_optimizer_goldens.py with PyTorch 2.15.0, float64.
#pragma once

inline constexpr int kGoldenElements = 8;
inline constexpr int kGoldenSteps = 10;
inline constexpr double kAdamWWeights[kGoldenElements] = {
    -0.45867283038827267, -0.2885860204491452, -0.18731410775679924, -0.05827566376388971,
    0.06865818681037687,  0.18605291148087938, 0.3282943719218077,   0.40536487809861743,
};
inline constexpr double kAdamWeights[kGoldenElements] = {
    -0.4367957353394262, -0.28114666726729304, -0.18096226420983394, -0.05609175699702952,
    0.06666987008985534, 0.18014707840853153,  0.3164807679246603,   0.3959442929310706,
};
