// A short queue of words; its first word is visible before it is taken.
// SPDX-License-Identifier: Apache-2.0
module nic_queue #(
    parameter W = 8,    // bits of a word
    parameter L = 4,    // 2^L words
    parameter SLACK = 0 // `room` becomes 0 this many words before the queue is full
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         push,
    input  wire [W-1:0] in,
    output wire         room,
    input  wire         pop,
    output wire [W-1:0] head,
    output wire         some
);
    reg [W-1:0] words [0:(1<<L)-1];
    reg [L:0] tail, front; // one bit more than an index, to tell a full queue from an empty one
    wire [L:0] used = tail - front;

    localparam [31:0] LIMIT = (1 << L) - SLACK;
    assign room = {{(31-L){1'b0}}, used} < LIMIT;
    assign some = tail != front;
    assign head = words[front[L-1:0]];

    always @(posedge clk) begin
        if (push)
            words[tail[L-1:0]] <= in;
        if (rst) begin
            tail <= 0;
            front <= 0;
        end else begin
            if (push)
                tail <= tail + 1'b1;
            if (pop)
                front <= front + 1'b1;
        end
    end
endmodule
