// The networks themselves, one function each; inside src/model only (others call describe()). The functions leave `name` empty:
// the list in description.cc names each once.
#pragma once

#include "model/description.h"

namespace paceline::model {

enum class Auxiliary { kWithout, kWith };  // the classifiers in the middle of the network that only training uses

ModelDescription mlp();    // 784-512-512-10, for 28x28 images
ModelDescription lenet();  // conv 20, conv 50, 500, 10, for 28x28 images

ModelDescription alexnet();     // 96/256/384/384/256 filters without groups, 224x224
ModelDescription alexnet_32();  // the same filters at 32x32, 10 classes, classifier 1024-2048-2048-10

ModelDescription vgg_19(std::int64_t classes);  // 224x224
ModelDescription vgg_19_32();                   // the same filters at 32x32, 10 classes, classifier 512-512-512-10

ModelDescription residual_cifar(int depth);  // depth = 6n + 2, option A (shortcuts without parameters), 32x32, 10 classes
ModelDescription residual_50();              // stride in the 3x3 convolutions, 224x224

ModelDescription googlenet(Auxiliary auxiliary);     // Szegedy et al. 2014: biases, no normalisation, 224x224
ModelDescription inception_v3(Auxiliary auxiliary);  // Szegedy et al. 2015, 299x299

ModelDescription seq2seq();  // IWSLT'15 English-Vietnamese sized, 25 tokens a side

}  // namespace paceline::model
