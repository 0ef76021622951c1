// The alignment unit loses, doubles and reorders nothing: what yosys-smtbmc proves about it.
// SPDX-License-Identifier: Apache-2.0

// The solver chooses the packets, the idle cycles, the backpressure, and one byte, at `place` in
// the packet `chosen`. This byte is 1, all others are 0: the unit never looks at data, so any other
// bytes would go the same way. The 1 must come at its place, and nothing but 0 elsewhere. So must
// the packet's end. After enough quiet cycles all that went in is out. The unit is narrow here,
// 4 bytes a beat; its text is the same for 32.
module nic_align_proof #(
    parameter BEAT = 4,
    parameter MOST = 6
) (
    input wire              clk,
    input wire [       5:0] s_length,
    input wire              s_last,
    input wire              s_valid,
    input wire              m_tready
);
    reg rst = 1'b1;
    always @(posedge clk) rst <= 1'b0;

    wire              s_ready, m_tlast, m_tvalid;
    wire [8*BEAT-1:0] m_tdata;
    wire [  BEAT-1:0] m_tkeep;
    wire [      15:0] m_bytes;
    nic_align #(.BEAT(BEAT), .MOST(MOST)) unit (
        .clk(clk), .rst(rst),
        .s_string(s_string), .s_length(s_length), .s_last(s_last), .s_valid(s_valid),
        .s_ready(s_ready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_bytes(m_bytes),
        .m_tvalid(m_tvalid), .m_tready(m_tready)
    );
    nic_axi_rules #(.BYTES(BEAT)) rules_out (
        .clk(clk), .rst(rst), .tdata(m_tdata), .tkeep(m_tkeep), .tlast(m_tlast),
        .tside(m_tlast ? m_bytes : 16'd0), .tvalid(m_tvalid), .tready(m_tready)
    );

    // What comes in: 1 to MOST bytes. It may change while it waits.
    always @* assume (s_length != 6'd0 && s_length <= MOST);

    // What of it must come out where. So few packets and bytes that no counter overflows.
    (* anyconst *) reg [1:0] chosen;
    (* anyconst *) reg [5:0] place;
    reg [1:0] packets_in = 2'd0, packets_out = 2'd0;
    reg [5:0] offset_in = 6'd0, offset_out = 6'd0;  // bytes of the packet so far
    reg       ended = 1'b0;
    reg       in_packet = 1'b0;
    reg [5:0] total;
    wire [8*MOST-1:0] s_string;
    genvar at;
    generate
        for (at = 0; at < MOST; at = at + 1) begin : bytes
            assign s_string[8*at+:8] = {7'd0, packets_in == chosen && at < s_length
                                              && place == offset_in + at};
        end
    endgenerate
    wire      in = s_valid && s_ready && !rst;
    wire      out = m_tvalid && m_tready && !rst;
    wire [5:0] offset_next = offset_in + s_length;
    always @* begin
        assume (packets_in != 2'd3);
        assume (offset_in <= 6'd48);
    end
    always @(posedge clk) if (in) begin
        offset_in <= s_last ? 6'd0 : offset_next;
        packets_in <= packets_in + {1'b0, s_last};
        in_packet <= !s_last;
        if (packets_in == chosen && s_last) begin
            ended <= 1'b1;
            total <= offset_next;
        end
    end

    integer    b;
    reg  [5:0] count;                           // bytes of the beat at the output
    always @* begin
        count = 6'd0;
        for (b = 0; b < BEAT; b = b + 1) count = count + {5'd0, m_tkeep[b]};
    end
    always @(posedge clk) if (out) begin
        offset_out <= m_tlast ? 6'd0 : offset_out + count;
        packets_out <= packets_out + {1'b0, m_tlast};
    end
    always @* if (out) begin
        for (b = 0; b < BEAT; b = b + 1) if (m_tkeep[b])
            assert (m_tdata[8*b+:8] == {7'd0, packets_out == chosen && place == offset_out + b});
    end
    always @* if (out && packets_out == chosen) begin
        if (m_tlast) assert (ended && offset_out + count == total && m_bytes == {10'd0, total});
        if (!m_tlast && ended) assert (offset_out + count < total);
    end

    // Nothing stays inside: with nothing new and nobody who makes it wait, all is out soon.
    reg [2:0] calm = 3'd0;
    always @(posedge clk) calm <= s_valid || !m_tready || rst ? 3'd0 : calm + {2'd0, calm != 3'd7};
    always @* if (calm == 3'd4 && !in_packet) assert (packets_in == packets_out && !m_tvalid);

    // Throughput: a string of up to a beat is taken at once where none so far was longer.
    reg long = 1'b0, waited = 1'b0;
    always @(posedge clk) begin
        long <= long || (s_valid && s_length > BEAT);
        waited <= waited || !m_tready;
    end
    always @* if (!rst && s_valid && s_length <= BEAT && !long && !waited && m_tready)
        assert (s_ready);
endmodule
