// Fits a standard normal density through the installed library. Its log evidence is 0.
#include <wvgd.h>

#include <cmath>
#include <cstdio>
#include <memory>

static double normal(void *, const double *z, double *grad)
{
    const double log_2pi = 1.8378770664093453;
    if (grad) {
        grad[0] = -z[0];
        grad[1] = -z[1];
    }
    return -log_2pi - 0.5 * (z[0] * z[0] + z[1] * z[1]);
}

int main()
{
    wvgd_model model;
    if (wvgd_model_pointwise(&model, 2, normal, nullptr, true) != 0)
        return 1;
    wvgd_options options;
    wvgd_options_init(&options);
    wvgd_error error = wvgd_error();
    bool good = wvgd_options_set(&options, "particles", "2", &error) == WVGD_OK;
    {
        std::unique_ptr<wvgd_fit, void (*)(wvgd_fit *)> fit(wvgd_new(&model, &options, nullptr, &error), wvgd_free);
        good = good && fit && wvgd_run(fit.get(), nullptr, nullptr, &error) == WVGD_OK;
        if (good) {
            wvgd_results results;
            wvgd_get_results(fit.get(), &results);
            std::printf("wvgd %s from C++: pelbo %.4f\n", wvgd_version(), results.pelbo.value);
            good = std::fabs(results.pelbo.value) < 0.5;
        } else {
            std::fprintf(stderr, "%s\n", error.text);
        }
    }
    wvgd_model_close(&model);
    return good ? 0 : 1;
}
