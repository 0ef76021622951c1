// The NIC's receive direction: compressed segments from the wire are restored, other frames are
// unchanged.
// SPDX-License-Identifier: Apache-2.0

// AXI-stream as in nic_packet. A segment is restored only if its ToS is 0x2c (without ECN), its
// checksum is that of a compressed segment, and its whole payload has the format. No connections
// are tracked.
module nic_rx #(
    parameter A = 10,           // packet FIFO: 2^A beats
    parameter B = 10,           // second FIFO: 2^B beats
    parameter MOST = 288        // beats of a frame, compressed or restored: 9,216 bytes
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [255:0] s_tdata,
    input  wire [31:0]  s_tkeep,
    input  wire         s_tlast,
    input  wire         s_tvalid,
    output wire         s_tready,
    output wire [255:0] m_tdata,
    output wire [31:0]  m_tkeep,
    output wire         m_tlast,
    output wire         m_tvalid,
    input  wire         m_tready
);
    wire [255:0] c_tdata, d_tdata;
    wire [31:0] c_tkeep, d_tkeep;
    wire [15:0] c_count;
    wire c_tlast, c_tvalid, c_tready, d_tlast, d_error, d_tvalid, d_tready;
    nic_packet #(.RX(1), .A(A), .B(B), .MOST(MOST)) packet (
        .clk(clk), .rst(rst),
        .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tvalid(s_tvalid),
        .s_tready(s_tready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_tvalid(m_tvalid),
        .m_tready(m_tready),
        .c_tdata(c_tdata), .c_tkeep(c_tkeep), .c_tlast(c_tlast), .c_count(c_count),
        .c_tvalid(c_tvalid), .c_tready(c_tready),
        .d_tdata(d_tdata), .d_tkeep(d_tkeep), .d_tlast(d_tlast), .d_error(d_error),
        .d_tvalid(d_tvalid), .d_tready(d_tready)
    );
    nic_decompress decompress (
        .clk(clk), .rst(rst),
        .s_tdata(c_tdata), .s_tkeep(c_tkeep), .s_tlast(c_tlast), .s_count(c_count),
        .s_tvalid(c_tvalid), .s_tready(c_tready),
        .m_tdata(d_tdata), .m_tkeep(d_tkeep), .m_tlast(d_tlast), .m_error(d_error),
        .m_tvalid(d_tvalid), .m_tready(d_tready)
    );
endmodule
