// A node of the reversed shifter tree: splits a string of bytes into two.
// SPDX-License-Identifier: Apache-2.0

// Combinational. The first low_length bytes, 0 to BYTES, are the low half, the next ones the high
// half. Bytes above a half's own ones are arbitrary.
module nic_split #(
    parameter BYTES = 4
) (
    input  wire [16*BYTES-1:0] joined,
    input  wire [         5:0] low_length,
    output wire [ 8*BYTES-1:0] low,
    output wire [ 8*BYTES-1:0] high
);
    localparam BITS = BYTES == 4 ? 3 : BYTES == 8 ? 4 : 5;  // bits for lengths of 0 to BYTES
    wire [    BITS-1:0] shift = low_length[BITS-1:0];
    wire [16*BYTES-1:0] shifted = joined >> {shift, 3'd0};
    wire                unused = &{1'b0, low_length, shifted[16*BYTES-1:8*BYTES]};
    assign low = joined[8*BYTES-1:0];
    assign high = shifted[8*BYTES-1:0];
endmodule
