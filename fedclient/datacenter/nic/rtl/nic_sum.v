// Sum of a packet's bytes as in TCP's checksum: 16-bit words, high byte first, carries added.
// SPDX-License-Identifier: Apache-2.0
//
// Never waits. A few cycles after a packet's last beat, `done` is 1 with the sum.
module nic_sum (
    input  wire         clk,
    input  wire         rst,
    input  wire         beat,
    input  wire         last,
    input  wire [4:0]   from,  // the first byte of the beat that counts
    input  wire [5:0]   count, // bytes of the beat, 0 to 32
    input  wire [255:0] data,
    output reg          done,
    output reg  [15:0]  sum
);
    integer i;
    reg [255:0] kept;
    reg kept_beat, kept_last, four_beat, four_last, all_beat, all_last, total_done;
    reg [17:0] four0, four1, four2, four3;
    reg [19:0] all;
    reg [31:0] total; // room for 2^12 beats
    reg [31:0] ended;
    reg [16:0] folded;
    reg folded_done;

    function [17:0] quarter(input [63:0] d);
        quarter = {2'b0, d[7:0], d[15:8]} + {2'b0, d[23:16], d[31:24]}
                + {2'b0, d[39:32], d[47:40]} + {2'b0, d[55:48], d[63:56]};
    endfunction

    always @(posedge clk) begin
        for (i = 0; i < 32; i = i + 1)
            kept[8*i +: 8] <= i >= {27'd0, from} && i < {26'd0, count} ? data[8*i +: 8] : 8'd0;
        kept_last <= last;
        four0 <= quarter(kept[63:0]);
        four1 <= quarter(kept[127:64]);
        four2 <= quarter(kept[191:128]);
        four3 <= quarter(kept[255:192]);
        four_last <= kept_last;
        all <= {2'b0, four0} + {2'b0, four1} + {2'b0, four2} + {2'b0, four3};
        all_last <= four_last;
        if (all_beat) begin
            total <= all_last ? 32'd0 : total + {12'd0, all};
            ended <= total + {12'd0, all};
        end
        folded <= {1'b0, ended[31:16]} + {1'b0, ended[15:0]};
        sum <= folded[15:0] + {15'd0, folded[16]};
        kept_beat <= beat && !rst;
        four_beat <= kept_beat && !rst;
        all_beat <= four_beat && !rst;
        total_done <= all_beat && all_last && !rst;
        folded_done <= total_done && !rst;
        done <= folded_done && !rst;
        if (rst)
            total <= 0;
    end
endmodule
