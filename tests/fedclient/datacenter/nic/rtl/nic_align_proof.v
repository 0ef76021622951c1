// Proof that the alignment unit loses, doubles and reorders no byte, by induction (yosys-smtbmc).
// SPDX-License-Identifier: Apache-2.0

// Bytes are counted over all packets, modulo 256. The solver chooses strings, packets, idle cycles,
// backpressure, `marked` and `border`. The byte at `marked` is 1 and all others 0: the unit never
// looks at data. At the output the same must hold, and a packet must end at `border` if and only if
// one ended there at the input. A beat has 4 bytes here; the NIC uses 32.
module nic_align_proof #(
    parameter BEAT = 4,
    parameter MOST = 6
) (
    input wire       clk,
    input wire [5:0] s_length,
    input wire       s_last,
    input wire       s_valid,
    input wire       m_tready
);
    reg rst = 1'b1;
    always @(posedge clk) rst <= 1'b0;

    (* anyconst *) reg [7:0] marked, border;
    reg  [       7:0] bytes_in = 8'd0, bytes_out = 8'd0;
    reg  [8*MOST-1:0] s_string;
    integer           i;
    always @* begin
        assume (s_length != 6'd0 && s_length <= MOST);
        s_string = 0;
        for (i = 0; i < MOST; i = i + 1)
            s_string[8*i] = i < s_length && marked == bytes_in + i[7:0];
    end

    wire              s_ready, m_tlast, m_tvalid, kept_last;
    wire [8*BEAT-1:0] m_tdata;
    wire [  BEAT-1:0] m_tkeep;
    wire [8*MOST-1:0] kept;
    wire [       5:0] kept_length;
    nic_align #(.BEAT(BEAT), .MOST(MOST)) unit (
        .clk(clk), .rst(rst),
        .s_string(s_string), .s_length(s_length), .s_last(s_last), .s_valid(s_valid),
        .s_ready(s_ready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_tvalid(m_tvalid),
        .m_tready(m_tready),
        .proof_kept(kept), .proof_kept_length(kept_length), .proof_kept_last(kept_last)
    );
    nic_axi_rules #(.BYTES(BEAT)) rules_out (
        .clk(clk), .rst(rst), .tdata(m_tdata), .tkeep(m_tkeep), .tlast(m_tlast), .tside(16'd0),
        .tvalid(m_tvalid), .tready(m_tready)
    );

    integer   b;
    reg [7:0] count;                            // bytes of the beat at the output
    always @* begin
        count = 8'd0;
        for (b = 0; b < BEAT; b = b + 1) count = count + {7'd0, m_tvalid && m_tkeep[b]};
    end

    reg  ended = 1'b0;                          // a packet ended with the byte at `border`
    reg  open = 1'b0;                           // a packet has begun and not ended
    reg  quiet = 1'b1, long = 1'b0;             // no backpressure so far; a string exceeded a beat
    wire in = s_valid && s_ready && !rst;
    wire out = m_tvalid && m_tready && !rst;
    wire [7:0] next_in = bytes_in + {2'd0, s_length};
    wire [7:0] to_border = border - bytes_in - 8'd1;
    always @(posedge clk) begin
        if (in) begin
            bytes_in <= next_in;
            open <= !s_last;
            if (to_border < {2'd0, s_length}) ended <= s_last && border == next_in;
        end
        if (out) bytes_out <= bytes_out + count;
        quiet <= quiet && m_tready;
        long <= long || (s_valid && s_length > BEAT);
    end

    wire [7:0] first_kept = bytes_out + count;
    wire [7:0] border_out = border - bytes_out - 8'd1;  // place of the last byte before border
    always @* if (!rst) begin
        // Each byte of the input has left or is kept. Only a packet's end may close the kept bytes.
        assert (bytes_in == first_kept + {2'd0, kept_length});
        assert (kept_length <= MOST && (!kept_last || kept_length != 0));
        assert (open || kept_last || kept_length == 0);
        assert (!(open && kept_last));
        // The marked byte is where it belongs, in the unit and at the output.
        for (i = 0; i < MOST; i = i + 1)
            assert (kept[8*i+:8] == {7'd0, i < kept_length && marked == first_kept + i[7:0]});
        if (m_tvalid)
            for (i = 0; i < BEAT; i = i + 1) if (m_tkeep[i])
                assert (m_tdata[8*i+:8] == {7'd0, marked == bytes_out + i[7:0]});
        if (border_out < count) assert (ended == (m_tlast && border == first_kept));
        else if (border_out < count + {2'd0, kept_length})
            assert (ended == (kept_last && border == bytes_in));
        // As long as there was no backpressure and no string over a beat, no string waits.
        if (quiet && !long) assert (kept_length <= BEAT);
        if (quiet && m_tready && !long && s_valid && s_length <= BEAT) assert (s_ready);
    end
endmodule
