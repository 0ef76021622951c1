// A node of the shifter tree: joins two strings of bytes.
// SPDX-License-Identifier: Apache-2.0

// Combinational. low has low_length bytes, 0 to BYTES, and zeros above them; high follows.
module nic_join #(
    parameter BYTES = 4
) (
    input  wire [ 8*BYTES-1:0] low,
    input  wire [         5:0] low_length,
    input  wire [ 8*BYTES-1:0] high,
    output wire [16*BYTES-1:0] joined
);
    localparam BITS = BYTES == 4 ? 3 : BYTES == 8 ? 4 : 5;  // bits for lengths of 0 to BYTES
    wire [    BITS-1:0] shift = low_length[BITS-1:0];
    wire                unused = &{1'b0, low_length};
    wire [16*BYTES-1:0] wide_low = {{8 * BYTES{1'b0}}, low};
    wire [16*BYTES-1:0] wide_high = {{8 * BYTES{1'b0}}, high};
    assign joined = wide_low | (wide_high << {shift, 3'd0});
endmodule
