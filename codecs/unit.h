/* The vector unit that a file of codecs is compiled for, and the names of its functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_UNIT_H
#define FEDCODEC_UNIT_H

/*
 * CMakeLists.txt compiles the codecs' folders and prim/ once for each vector unit: the same
 * sources with other compiler options, and with FEDCODEC_UNIT defined as the unit's name. When the
 * program runs, registry.c picks the best unit that the machine has.
 *
 * All units are linked into one library. So each name that one file shares with another ends in
 * the unit's name: the macros below rename it. The unit plain has no FEDCODEC_UNIT and no
 * renaming. A shared name that is missing below causes a link error.
 *
 * Most loops are left to the compiler. Where it finds no vector code, the file has intrinsics
 * under the macros FEDCODEC_AVX512, FEDCODEC_AVX2 and FEDCODEC_NEON. The macros are also set if a
 * user compiles the library for one machine (-march=native).
 */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) &&                      \
    defined(__AVX512DQ__) && defined(__AVX512VBMI__) && defined(__AVX512VBMI2__)
#define FEDCODEC_AVX512 1
#endif
#if defined(__AVX2__) && defined(__BMI__) && defined(__BMI2__) && defined(__LZCNT__)
#define FEDCODEC_AVX2 1
#endif
#if defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FEDCODEC_NEON 1
#endif

#define FEDCODEC_JOIN_(name, unit) name##_##unit
#define FEDCODEC_JOIN(name, unit)  FEDCODEC_JOIN_(name, unit)

#ifdef FEDCODEC_UNIT
#define FEDCODEC_UNITED(name) FEDCODEC_JOIN(name, FEDCODEC_UNIT)

#define fedcodec_this_unit                  FEDCODEC_UNITED(fedcodec_this_unit)
#define fedcodec_absorb                     FEDCODEC_UNITED(fedcodec_absorb)
#define fedcodec_check_values               FEDCODEC_UNITED(fedcodec_check_values)
#define fedcodec_eden_few_bound             FEDCODEC_UNITED(fedcodec_eden_few_bound)
#define fedcodec_eden_few_encode            FEDCODEC_UNITED(fedcodec_eden_few_encode)
#define fedcodec_eden_few_end               FEDCODEC_UNITED(fedcodec_eden_few_end)
#define fedcodec_eden_few_fits              FEDCODEC_UNITED(fedcodec_eden_few_fits)
#define fedcodec_eden_few_kept              FEDCODEC_UNITED(fedcodec_eden_few_kept)
#define fedcodec_eden_few_open              FEDCODEC_UNITED(fedcodec_eden_few_open)
#define fedcodec_eden_few_read              FEDCODEC_UNITED(fedcodec_eden_few_read)
#define fedcodec_eden_few_sent              FEDCODEC_UNITED(fedcodec_eden_few_sent)
#define fedcodec_eden_few_skip              FEDCODEC_UNITED(fedcodec_eden_few_skip)
#define fedcodec_eden_few_work              FEDCODEC_UNITED(fedcodec_eden_few_work)
#define fedcodec_form_names                 FEDCODEC_UNITED(fedcodec_form_names)
#define fedcodec_golomb_read                FEDCODEC_UNITED(fedcodec_golomb_read)
#define fedcodec_golomb_write               FEDCODEC_UNITED(fedcodec_golomb_write)
#define fedcodec_pos_names                  FEDCODEC_UNITED(fedcodec_pos_names)
#define fedcodec_mean_magnitude             FEDCODEC_UNITED(fedcodec_mean_magnitude)
#define fedcodec_positions_end              FEDCODEC_UNITED(fedcodec_positions_end)
#define fedcodec_positions_next             FEDCODEC_UNITED(fedcodec_positions_next)
#define fedcodec_positions_put              FEDCODEC_UNITED(fedcodec_positions_put)
#define fedcodec_positions_start            FEDCODEC_UNITED(fedcodec_positions_start)
#define fedcodec_quartic_valid              FEDCODEC_UNITED(fedcodec_quartic_valid)
#define fedcodec_quartic_values             FEDCODEC_UNITED(fedcodec_quartic_values)
#define fedcodec_range_end                  FEDCODEC_UNITED(fedcodec_range_end)
#define fedcodec_range_put                  FEDCODEC_UNITED(fedcodec_range_put)
#define fedcodec_range_read                 FEDCODEC_UNITED(fedcodec_range_read)
#define fedcodec_range_start                FEDCODEC_UNITED(fedcodec_range_start)
#define fedcodec_rans_cost                  FEDCODEC_UNITED(fedcodec_rans_cost)
#define fedcodec_rans_detail                FEDCODEC_UNITED(fedcodec_rans_detail)
#define fedcodec_rans_end                   FEDCODEC_UNITED(fedcodec_rans_end)
#define fedcodec_rans_put                   FEDCODEC_UNITED(fedcodec_rans_put)
#define fedcodec_rans_put_numbers           FEDCODEC_UNITED(fedcodec_rans_put_numbers)
#define fedcodec_rans_read                  FEDCODEC_UNITED(fedcodec_rans_read)
#define fedcodec_rans_read_numbers          FEDCODEC_UNITED(fedcodec_rans_read_numbers)
#define fedcodec_rans_start                 FEDCODEC_UNITED(fedcodec_rans_start)
#define fedcodec_scan_sum                   FEDCODEC_UNITED(fedcodec_scan_sum)
#define fedcodec_scan_added                 FEDCODEC_UNITED(fedcodec_scan_added)
#define fedcodec_select                     FEDCODEC_UNITED(fedcodec_select)
#define fedcodec_select_above               FEDCODEC_UNITED(fedcodec_select_above)
#define fedcodec_select_above_work_size     FEDCODEC_UNITED(fedcodec_select_above_work_size)
#define fedcodec_select_magnitude           FEDCODEC_UNITED(fedcodec_select_magnitude)
#define fedcodec_select_magnitude_work_size FEDCODEC_UNITED(fedcodec_select_magnitude_work_size)
#define fedcodec_select_work_size           FEDCODEC_UNITED(fedcodec_select_work_size)
#define fedcodec_sparse_axpy                FEDCODEC_UNITED(fedcodec_sparse_axpy)
#define fedcodec_sparse_bound               FEDCODEC_UNITED(fedcodec_sparse_bound)
#define fedcodec_sparse_bound_of            FEDCODEC_UNITED(fedcodec_sparse_bound_of)
#define fedcodec_sparse_check               FEDCODEC_UNITED(fedcodec_sparse_check)
#define fedcodec_sparse_decode              FEDCODEC_UNITED(fedcodec_sparse_decode)
#define fedcodec_sparse_fold                FEDCODEC_UNITED(fedcodec_sparse_fold)
#define fedcodec_sparse_squares             FEDCODEC_UNITED(fedcodec_sparse_squares)
#define fedcodec_sparse_put                 FEDCODEC_UNITED(fedcodec_sparse_put)
#define fedcodec_values_check               FEDCODEC_UNITED(fedcodec_values_check)
#define fedcodec_values_keep                FEDCODEC_UNITED(fedcodec_values_keep)
#define fedcodec_values_len                 FEDCODEC_UNITED(fedcodec_values_len)
#define fedcodec_values_load                FEDCODEC_UNITED(fedcodec_values_load)
#define fedcodec_values_put                 FEDCODEC_UNITED(fedcodec_values_put)
#define fedcodec_zerorun_check              FEDCODEC_UNITED(fedcodec_zerorun_check)
#define fedcodec_zerorun_end                FEDCODEC_UNITED(fedcodec_zerorun_end)
#define fedcodec_zerorun_find               FEDCODEC_UNITED(fedcodec_zerorun_find)
#define fedcodec_zerorun_join               FEDCODEC_UNITED(fedcodec_zerorun_join)
#define fedcodec_zerorun_push               FEDCODEC_UNITED(fedcodec_zerorun_push)
#define fedcodec_zerorun_sum                FEDCODEC_UNITED(fedcodec_zerorun_sum)
#define fedcodec_zerorun_unpack             FEDCODEC_UNITED(fedcodec_zerorun_unpack)
#else
#define FEDCODEC_UNITED(name) name
#endif

#endif
