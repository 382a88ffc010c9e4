/* model.c - what every model has. */
#include "wvgd_model.h"

void wvgd_model_close(wvgd_model *model)
{
    if (model && model->close)
        model->close(model->self);
    if (model)
        model->self = NULL;
}
