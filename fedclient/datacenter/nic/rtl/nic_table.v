// A direct-mapped table of the connections whose SYN the host sent marked. Each entry has the low
// two bits of the sequence number of the connection's first byte.
// SPDX-License-Identifier: Apache-2.0
//
// A frame is looked up when `at` is 1; two cycles later come `known`, and `lead`, the number of its
// payload's bytes before the first whole float. The whole key is compared. A marked SYN is entered
// in the table and overwrites another connection with the same hash. An unmarked SYN removes its
// own connection. Segments of a removed connection are no longer compressed.
module nic_table #(
    parameter L = 6, // 2^L connections
    parameter K = 302
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         at,
    input  wire         syn,
    input  wire         marked,
    input  wire [K-1:0] key,
    input  wire [1:0]   seq, // the sequence number's low bits
    output reg          known,
    output reg  [1:0]   lead
);
    localparam B = (K + L - 1) / L;
    reg [K+1:0] entries [0:(1<<L)-1];
    reg [(1<<L)-1:0] used;

    integer i;
    reg [L-1:0] hash;
    wire [B*L-1:0] padded = {{(B*L-K){1'b0}}, key};
    always @* begin
        hash = 0;
        for (i = 0; i < B; i = i + 1)
            hash = hash ^ padded[i*L +: L];
    end

    reg [L-1:0] place;
    reg [K-1:0] wanted;
    reg ask, learn, mark;
    reg [1:0] low;
    wire [K+1:0] entry = entries[place];
    wire [1:0] began = entry[K+1:K];
    wire hit = used[place] && entry[K-1:0] == wanted;
    wire write = ask && learn && mark;
    wire [1:0] after = low + 2'd1;

    always @(posedge clk) begin
        place <= hash;
        wanted <= key;
        learn <= syn;
        mark <= marked;
        low <= seq;
        known <= ask && hit;
        lead <= began - low;
        if (write)
            entries[place] <= {after, wanted};
        if (write)
            used[place] <= 1;
        else if (ask && learn && hit)
            used[place] <= 0;
        ask <= at;
        if (rst) begin
            ask <= 0;
            used <= 0;
        end
    end
endmodule
