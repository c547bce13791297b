;; expect: 1.15
;; role: sampler
;; layout: answer=4294967292 answer_capacity=64

