// Header match: finds the TCP segments that the NIC may code, and the fields that later steps need.
// SPDX-License-Identifier: Apache-2.0

// Reads the first 96 bytes of each frame beside the stream: Ethernet, one VLAN tag (0x8100) or
// none, IPv4 without options (RX 0: and with "don't fragment"), or IPv6 without extension headers,
// TCP. `say` is 1 once for each frame, in order, five cycles after the frame's third beat, or its
// last if it has fewer. The module never waits.
module nic_parse #(
    parameter RX = 0,           // 0: marked segments of known connections; 1: compressed ones
    parameter TABLE = 6         // 2^TABLE connections (RX 0)
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         beat,
    input  wire [1:0]   index,  // number of the beat: 0, 1, 2; 3 for all later ones
    input  wire         last,
    input  wire [5:0]   count,  // bytes in the beat
    input  wire [255:0] data,
    output reg          say,
    output wire [83:0]  found   // code, v6, vlan, lead, header, payload, tos, length, sums
);
    localparam [7:0] MARK = RX != 0 ? 8'h2c : 8'h28;

    // The first three beats. Bytes that a short frame lacks are not used.
    reg [255:0] beat0, beat1;
    reg [767:0] all;
    reg [6:0] all_bytes;
    reg all_here;
    always @(posedge clk) begin
        if (beat && index == 0)
            beat0 <= data;
        if (beat && index == 1)
            beat1 <= data;
        all_here <= beat && !rst && (index == 2 || (last && index < 2));
        all <= index == 0 ? {512'd0, data} : index == 1 ? {256'd0, data, beat0}
                                                        : {data, beat1, beat0};
        all_bytes <= {index[1:0], 5'd0} + {1'b0, count};
    end

    wire with_tag = {all[103:96], all[111:104]} == 16'h8100;
    wire [735:0] untagged = with_tag ? all[767:32] : all[735:0];
    wire unused_begin = &{1'b0, untagged[95:0]};
    reg [623:0] ip; // 78 bytes: IPv6's header and TCP's with its first options
    reg [15:0] ether;
    reg [6:0] ip_bytes;
    reg vlan, ip_here;
    reg [11:0] vid;
    always @(posedge clk) begin
        ip <= untagged[735:112];
        ether <= {untagged[103:96], untagged[111:104]};
        vlan <= with_tag;
        vid <= {all[115:112], all[127:120]};
        ip_bytes <= all_bytes < (with_tag ? 7'd18 : 7'd14) ? 7'd0
                                                         : all_bytes - (with_tag ? 7'd18 : 7'd14);
        ip_here <= all_here && !rst;
    end

    // A fragment is not coded, and a packet that routers may fragment is not compressed.
    wire is4 = ether == 16'h0800 && ip[7:0] == 8'h45 && ip[53:48] == 0 && ip[63:56] == 0
            && (RX != 0 || ip[54]) && ip[79:72] == 8'd6 && ip_bytes >= 40;
    wire is6 = ether == 16'h86dd && ip[7:4] == 4'd6 && ip[55:48] == 8'd6 && ip_bytes >= 60;
    wire [159:0] tcp = is6 ? ip[479:320] : ip[319:160];
    reg tcp_ok, tcp_v6, tcp_vlan, tcp_here;
    reg [7:0] tos;
    reg [15:0] length, ip_sum, tcp_sum, segment;
    reg [3:0] words; // 32-bit words of TCP's header
    reg [7:0] flags;
    reg [1:0] seq;
    reg [301:0] key;
    always @(posedge clk) begin
        tcp_here <= ip_here && !rst;
        tcp_ok <= is4 || is6;
        tcp_v6 <= is6;
        tcp_vlan <= vlan;
        tos <= is6 ? {ip[3:0], ip[15:12]} : ip[15:8];
        length <= is6 ? {ip[39:32], ip[47:40]} : {ip[23:16], ip[31:24]};
        segment <= is6 ? {ip[39:32], ip[47:40]} : {ip[23:16], ip[31:24]} - 16'd20;
        ip_sum <= {ip[87:80], ip[95:88]};
        tcp_sum <= {tcp[135:128], tcp[143:136]};
        words <= tcp[103:100];
        flags <= tcp[111:104];
        seq <= tcp[57:56];
        key <= {vlan, vlan ? vid : 12'd0, is6, is6 ? ip[319:64] : {192'd0, ip[159:96]}, tcp[31:0]};
    end

    wire [15:0] rest = segment - {10'd0, words, 2'b00};
    wire marked = tcp_ok && (tos & 8'hfc) == MARK;
    wire syn = flags[1];
    reg size_here, size_code, size_v6, size_vlan;
    reg [6:0] header;
    reg [15:0] payload, size_length, size_ip_sum, size_tcp_sum;
    reg [7:0] size_tos;
    always @(posedge clk) begin
        size_here <= tcp_here && !rst;
        size_code <= marked && !syn && !flags[2] && !flags[5] // SYN, RST, URG
                  && words >= 5 && segment >= {10'd0, words, 2'b00}
                  && rest >= 6 && rest < 16'd16000;
        size_v6 <= tcp_v6;
        size_vlan <= tcp_vlan;
        header <= (tcp_v6 ? 7'd54 : 7'd34) + (tcp_vlan ? 7'd4 : 7'd0) + {1'b0, words, 2'b00};
        payload <= rest;
        size_tos <= tos;
        size_length <= length;
        size_ip_sum <= ip_sum;
        size_tcp_sum <= tcp_sum;
    end

    // The table's answer comes with the next stage.
    wire known;
    wire [1:0] lead;
    reg [80:0] waits;
    reg waits_code;
    generate
        if (RX == 0) begin : sender
            nic_table #(.L(TABLE), .K(302)) table_of_flows (
                .clk(clk), .rst(rst), .at(tcp_here), .syn(tcp_ok && syn), .marked(marked),
                .key(key), .seq(seq), .known(known), .lead(lead)
            );
        end else begin : receiver
            assign known = 1;
            assign lead = 0;
            wire unused = &{1'b0, key, seq};
        end
    endgenerate
    always @(posedge clk) begin
        say <= size_here && !rst;
        waits_code <= size_code;
        waits <= {size_v6, size_vlan, header, payload, size_tos, size_length, size_ip_sum,
                  size_tcp_sum};
    end
    wire unused_fields = &{1'b0, ip[623:480], tcp[159:144], tcp[127:112], tcp[99:58], tcp[55:32],
                           flags[7:6], flags[4:3], flags[0]};
    assign found = {waits_code && known, waits[80:79], lead, waits[78:0]};
endmodule
