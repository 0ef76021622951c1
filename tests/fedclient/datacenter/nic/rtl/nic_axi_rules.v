// The rules of AXI-stream for one side: assumed for an input, asserted for an output.
// SPDX-License-Identifier: Apache-2.0

// An offered beat does not change until it is taken. tkeep marks the valid units of UNIT bytes,
// from the lowest on. Only a packet's last beat may be partly filled, and empty if MAY_BE_EMPTY is
// set.
module nic_axi_rules #(
    parameter BYTES = 32,
    parameter UNIT = 1,
    parameter INPUT = 0,
    parameter MAY_BE_EMPTY = 0
) (
    input wire               clk,
    input wire               rst,
    input wire [8*BYTES-1:0] tdata,
    input wire [  BYTES-1:0] tkeep,
    input wire               tlast,
    input wire [       15:0] tside,
    input wire               tvalid,
    input wire               tready
);
    reg                waits = 1'b0;
    reg  [8*BYTES-1:0] data;
    reg  [  BYTES-1:0] keep;
    reg                last;
    reg  [       15:0] side;
    always @(posedge clk) begin
        waits <= tvalid && !tready && !rst;
        data <= tdata;
        keep <= tkeep;
        last <= tlast;
        side <= tside;
    end

    wire stable = tvalid && tdata == data && tkeep == keep && tlast == last && tside == side;
    wire shape = (tkeep & (tkeep + 1'b1)) == 0 && (&tkeep || tlast)
               && (tkeep[0] || MAY_BE_EMPTY != 0);
    wire units;
    generate
        if (UNIT == 1) begin : any
            assign units = 1'b1;
        end else begin : whole
            wire [BYTES/UNIT-1:0] same;
            genvar i;
            for (i = 0; i < BYTES / UNIT; i = i + 1) begin : unit
                assign same[i] = &tkeep[UNIT*i+:UNIT] || !(|tkeep[UNIT*i+:UNIT]);
            end
            assign units = &same;
        end
        if (INPUT != 0) begin : input_side
            always @* if (!rst) begin
                if (waits) assume (stable);
                if (tvalid) assume (shape && units);
            end
        end else begin : output_side
            always @* if (!rst) begin
                if (waits) assert (stable);
                if (tvalid) assert (shape && units);
            end
        end
    endgenerate
endmodule
