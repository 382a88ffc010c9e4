/* model.c - what every model has. */
#include "wvgd_model.h"

void wvgd_model_close(wvgd_model *model)
{
    if (!model)
        return;
    if (model->close)
        model->close(model->self);
    model->close = NULL; /* closing again does nothing */
    model->self = NULL;
}
