/**
 * Federated learning on a device: a {@link fed.Client} takes part in rounds with a trainer of the app's, and
 * {@link fed.Codecs} compress float arrays.
 */
// SPDX-License-Identifier: Apache-2.0
package fed;
