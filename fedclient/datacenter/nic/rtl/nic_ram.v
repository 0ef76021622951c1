// Memory of a packet FIFO, with a write port and a read port. Read data come a cycle later.
// SPDX-License-Identifier: Apache-2.0
module nic_ram #(
    parameter W = 256,
    parameter L = 10
) (
    input  wire         clk,
    input  wire         write,
    input  wire [L-1:0] to,
    input  wire [W-1:0] in,
    input  wire         read,
    input  wire [L-1:0] from,
    output reg  [W-1:0] out
);
    reg [W-1:0] words [0:(1<<L)-1];

    always @(posedge clk) begin
        if (write)
            words[to] <= in;
        if (read)
            out <= words[from];
    end
endmodule
