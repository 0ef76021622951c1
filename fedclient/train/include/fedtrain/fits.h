/* Check which model can be trained on which data. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FITS_H
#define FEDTRAIN_FITS_H

#include "fed/api.h"
#include "fed/arch.h"
#include "fedtrain/dataset.h"
#include "fedtrain/text.h"

FED_API_BEGIN

/** Check that this model can be trained on these data. FED_EINVAL, FED_ERANGE: it cannot, and *err
 * says why. */
fed_status fedtrain_dataset_fits(const fedtrain_dataset *set, const fed_arch *arch,
                                 fed_error *err) FED_CHECKED;
fed_status fedtrain_text_fits(const fedtrain_text *text, const fed_arch *arch,
                              fed_error *err) FED_CHECKED;

FED_API_END

#endif
