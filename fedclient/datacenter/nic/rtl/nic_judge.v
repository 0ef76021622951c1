// Decide if a frame leaves in its new form (compressed or restored); compute lengths and checksums.
// SPDX-License-Identifier: Apache-2.0

// Frames come in order. A frame whose payload went to the aligner waits for its `info`, and if the
// engine got a part of the payload, for the engine's result. The six stages never wait, so a frame
// can enter in each cycle. Checksums are updated: the old payload and length are subtracted, the
// new ones added, and in the pseudo-header 253 replaces protocol number 6 for a compressed segment.
// A wrong checksum stays wrong.
module nic_judge #(
    parameter RX = 0
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         room,
    input  wire         front_some,
    input  wire [94:0]  front,
    input  wire [15:0]  all,    // sum of the frame from its IP addresses on (RX 1)
    output wire         front_take,
    input  wire         info_some,
    input  wire [84:0]  info,
    input  wire [15:0]  old,
    output wire         info_take,
    input  wire         result_some,
    input  wire [16:0]  result,
    input  wire [15:0]  new_one,
    output wire         result_take,
    output reg          say,
    output reg  [184:0] plan
);
    wire coded = front[83];
    wire engaged = info[84];
    assign front_take = front_some && room && (!coded || (info_some && (!engaged || result_some)));
    assign info_take = front_take && coded;
    assign result_take = info_take && engaged;

    reg one_here, one_may, one_result;
    reg [94:0] one_front;
    reg [83:0] one_info;
    reg [16:0] one_answer;
    reg [15:0] one_old, one_new, one_all, one_tcp;
    always @(posedge clk) begin
        one_here <= front_take && !rst;
        one_may <= coded && front[84] && engaged;
        one_result <= result_take;
        one_front <= front;
        one_info <= info[83:0];
        one_answer <= result;
        one_old <= old;
        one_new <= new_one;
        one_all <= all;
        one_tcp <= front[71:56] + {9'd0, front[78:72]} - (front[82] ? 16'd54 : 16'd34)
                 - (front[81] ? 16'd4 : 16'd0);
    end

    // 2: the length of the payload's new form.
    wire [15:0] original = one_info[83:68];
    wire [1:0] lead = one_info[67:66];
    wire [1:0] ending = one_info[65:64];
    wire [23:0] leads = one_info[63:40];
    wire [23:0] ends = one_info[23:0];
    wire [9:0] result_beats = one_answer[15:6];
    wire [15:0] result_bytes = {1'b0, result_beats - 10'd1, 5'd0} + {10'd0, one_answer[5:0]};
    wire [17:0] checked = {2'd0, one_all} + {2'd0, one_tcp} + 18'd253;
    reg two_here, two_may;
    reg [15:0] two_check;
    reg [9:0] two_skip; // beats of this frame in the second FIFO
    reg [94:0] two_front;
    reg [15:0] two_payload, two_old, two_new, two_original;
    reg [1:0] two_lead, two_end;
    reg [23:0] two_leads, two_ends;
    reg two_odd; // the engine's bytes end at an odd offset
    always @(posedge clk) begin
        two_here <= one_here && !rst;
        two_may <= one_may && !one_answer[16];
        two_check <= checked[15:0] + {14'd0, checked[17:16]};
        two_skip <= one_result ? result_beats : 10'd0;
        two_front <= one_front;
        two_payload <= RX != 0 ? original
                     : 16'd4 + {14'd0, lead} + {14'd0, ending} + result_bytes;
        two_original <= original;
        two_old <= one_old;
        two_new <= lead[0] ? {one_new[7:0], one_new[15:8]} : one_new;
        two_lead <= lead;
        two_end <= ending;
        two_leads <= leads;
        two_ends <= ends;
        two_odd <= lead[0] ^ result_bytes[0];
    end

    // 3: sums of the parts. The payload's last bytes are the highest bytes of two_ends.
    wire [15:0] payload = two_front[71:56];
    wire [7:0] last1 = two_end == 0 ? 8'd0 : two_end == 1 ? two_ends[23:16]
                     : two_end == 2 ? two_ends[15:8] : two_ends[7:0];
    wire [7:0] last2 = two_end < 2 ? 8'd0 : two_end == 2 ? two_ends[23:16] : two_ends[15:8];
    wire [7:0] last3 = two_end == 3 ? two_ends[23:16] : 8'd0;
    wire [15:0] low_tcp = ~two_front[15:0];
    wire [15:0] low_ip = ~two_front[31:16];
    wire [15:0] less_payload = ~payload;
    wire [15:0] less_old = ~two_old;
    wire [15:0] less_length = ~two_front[47:32];
    wire [15:0] new_length = two_front[47:32] - payload + two_payload;
    localparam [15:0] TWIST = RX != 0 ? 16'hff08 : 16'd247; // 6 - 253 or 253 - 6
    localparam [15:0] DSCP = RX != 0 ? 16'hfffb : 16'd4;
    reg three_here, three_use;
    reg [9:0] three_skip;
    reg [94:0] three_front;
    reg [15:0] three_payload, three_length, three_original;
    reg [18:0] three_sum;
    reg [18:0] three_ends;
    reg [18:0] three_ip;
    reg [1:0] three_lead, three_end;
    reg [23:0] three_leads, three_tail;
    always @(posedge clk) begin
        three_here <= two_here && !rst;
        three_use <= two_may && (RX != 0 ? two_check == 16'hffff : two_payload < payload);
        three_skip <= two_skip;
        three_front <= two_front;
        three_payload <= two_payload;
        three_length <= new_length;
        three_original <= two_original;
        three_sum <= {3'd0, low_tcp} + {3'd0, less_old} + {3'd0, less_payload}
                   + {3'd0, two_payload} + {3'd0, TWIST} + {3'd0, two_new};
        three_ends <= {3'd0, two_leads[7:0], two_leads[15:8]} + {3'd0, two_leads[23:16], 8'd0}
                    + (two_odd ? {11'd0, last1} + {3'd0, last2, last3}
                               : {3'd0, last1, last2} + {3'd0, last3, 8'd0})
                    + (RX != 0 ? 19'd0 : {3'd0, two_original} + {9'd0, two_lead, 8'd0});
        three_ip <= {3'd0, low_ip} + {3'd0, DSCP} + {3'd0, less_length} + {3'd0, new_length};
        three_lead <= two_lead;
        three_end <= two_end;
        three_leads <= two_leads;
        three_tail <= two_ends;
    end

    // 4 and 5: add the carries, and collect the parts of the plan.
    reg four_here, four_use, five_here;
    reg [9:0] four_skip;
    reg [94:0] four_front;
    reg [19:0] four_sum;
    reg [16:0] four_ip;
    reg [13:0] four_size;
    reg [15:0] four_length;
    reg [55:0] four_bytes;
    reg [2:0] four_put;
    reg [1:0] four_end;
    reg [23:0] four_tail;
    reg [16:0] five_sum;
    reg [15:0] five_ip;
    reg [152:0] five;

    wire [15:0] size = three_payload + {9'd0, three_front[78:72]};
    wire [16:0] ip_twice = {1'b0, four_ip[15:0]} + {16'd0, four_ip[16]};
    wire [15:0] tcp_once = five_sum[15:0] + {15'd0, five_sum[16]};
    always @(posedge clk) begin
        four_here <= three_here && !rst;
        four_use <= three_use;
        four_skip <= three_skip;
        four_front <= three_front;
        four_sum <= {1'b0, three_sum} + {1'b0, three_ends};
        four_ip <= {1'b0, three_ip[15:0]} + {14'd0, three_ip[18:16]};
        four_size <= size[13:0];
        four_length <= three_length;
        four_put <= (RX != 0 ? 3'd0 : 3'd4) + {1'b0, three_lead};
        four_bytes <= RX != 0 ? {32'd0, three_leads}
                    : {three_leads, 8'd0, 6'd0, three_lead, three_original[7:0],
                       three_original[15:8]};
        four_end <= three_end;
        four_tail <= three_tail;

        five_here <= four_here && !rst;
        five_sum <= {1'b0, four_sum[15:0]} + {13'd0, four_sum[19:16]};
        five_ip <= ip_twice[15:0];
        five <= {four_use, four_front[82:81], four_front[94:85], four_skip, four_size,
                 four_front[78:72], four_put, four_bytes, four_end, four_tail, four_length,
                 four_front[55:48] ^ 8'h04};

        say <= five_here && !rst;
        plan <= {five, ~five_ip, ~tcp_once};
    end
    wire unused = &{1'b0, one_info[39:24], four_front[84:83], four_front[80:79], four_front[71:56],
                    four_front[47:0], size[15:14], ip_twice[16]};
endmodule
