// The alignment unit of INCEPTIONN's figure 9: packs strings of bytes into full beats without gaps.
// SPDX-License-Identifier: Apache-2.0

// In: a string of 1 to MOST bytes a cycle, the first byte lowest, zeros above; s_last ends the
// packet. Out: AXI-stream, BEAT bytes in a beat; a packet's last beat may be partial.
//   m_bytes     with m_tlast: the bytes of the packet, modulo 2^16
// MOST is BEAT to 2 * BEAT - 1, BEAT a power of two up to 32. One register at the output. The
// module takes a string in each cycle while m_tready stays 1 and no string is longer than a beat.
module nic_align #(
    parameter BEAT = 32,
    parameter MOST = 34
) (
    input  wire              clk,
    input  wire              rst,               // synchronous

    input  wire [8*MOST-1:0] s_string,
    input  wire [       5:0] s_length,
    input  wire              s_last,
    input  wire              s_valid,
    output wire              s_ready,

    output reg  [8*BEAT-1:0] m_tdata,
    output reg  [  BEAT-1:0] m_tkeep,
    output reg               m_tlast,
    output reg  [      15:0] m_bytes,
    output reg               m_tvalid,
    input  wire              m_tready
`ifdef NIC_PROOF                                // signals for the inductive proof
    ,
    output wire [8*MOST-1:0] proof_kept,
    output wire [       5:0] proof_kept_length,
    output wire              proof_kept_last
`endif
);
    // Bytes that have not left yet.
    reg  [8*MOST-1:0] kept;                    // kept_length bytes, zeros above
    reg  [        5:0] kept_length;             // 0 to MOST
    reg                kept_last;               // the kept bytes end a packet
    reg  [       15:0] bytes;

`ifdef NIC_PROOF
    assign proof_kept = kept;
    assign proof_kept_length = kept_length;
    assign proof_kept_last = kept_last;
`endif

    wire               more = kept_length > BEAT[5:0];  // then a full beat leaves first
    wire               join_kept = !kept_last;
    wire [        5:0] offset = join_kept ? kept_length : 6'd0;
    wire [        6:0] total = {1'b0, offset} + {1'b0, s_length};
    wire               full = total >= {1'b0, BEAT[5:0]};
    wire [8*(BEAT+MOST)-1:0] placed = {{8 * BEAT{1'b0}}, s_string} << {offset, 3'd0};
    wire [8*MOST-1:0] joined = placed[8*MOST-1:0] | (kept & {8 * MOST{join_kept}});
    wire [       15:0] sum = (join_kept ? bytes : 16'd0) + {10'd0, s_length};

    // Kept bytes leave without a new string if they are more than a beat or end a packet.
    wire               alone = more || kept_last;
    wire               leave = alone || (s_valid && full);
    wire               out_free = m_tready || !m_tvalid;
    wire               go = out_free || !leave;
    assign s_ready = go && !more;

    wire               ends_kept = kept_last && !more;
    wire               ends_now = s_last && total == {1'b0, BEAT[5:0]};
    wire [    BEAT-1:0] partial = ~({BEAT{1'b1}} << kept_length);

    always @(posedge clk) begin
        if (out_free) begin
            m_tvalid <= leave;
            m_tdata <= kept[8*BEAT-1:0] | (placed[8*BEAT-1:0] & {8 * BEAT{!alone}});
            m_tkeep <= ends_kept ? partial : {BEAT{1'b1}};
            m_tlast <= alone ? ends_kept : ends_now;
            m_bytes <= alone ? bytes : sum;
        end
        if (go) begin
            if (more) begin
                kept <= {{8 * BEAT{1'b0}}, kept[8*MOST-1:8*BEAT]};
                kept_length <= kept_length - BEAT[5:0];
            end else if (s_valid) begin
                // The kept bytes and the new string fill a beat; keep the rest.
                if (full && join_kept) begin
                    kept <= placed[8*(BEAT+MOST)-1:8*BEAT];
                    kept_length <= total[5:0] - BEAT[5:0];
                    kept_last <= s_last && !ends_now;
                end else begin
                    kept <= joined;
                    kept_length <= total[5:0];
                    kept_last <= s_last;
                end
                bytes <= ends_now && join_kept ? 16'd0 : sum;
            end else if (kept_last) begin
                kept <= {8 * MOST{1'b0}};
                kept_length <= 6'd0;
                kept_last <= 1'b0;
                bytes <= 16'd0;
            end
        end
        if (rst) begin
            m_tvalid <= 1'b0;
            kept <= {8 * MOST{1'b0}};
            kept_length <= 6'd0;
            kept_last <= 1'b0;
            bytes <= 16'd0;
        end
    end
endmodule
