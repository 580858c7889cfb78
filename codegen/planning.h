// What the planner's parts share. Private to codegen/.
#pragma once

#include <string>

#include "codegen/plan.h"

namespace tilewright {

// The template for a group of which the anchor is known; `reason` gets one line that says why.
TemplateKind choose_template(const Graph& graph, const Group& group, std::string& reason);

// Whether the matrix convolution has a tile for this group, with the reduction and softmax that it has so far.
bool conv_fits(const Graph& graph, const Group& group);

}  // namespace tilewright
